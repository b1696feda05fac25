// node cpuprofile.mjs PACKAGE FILE: what the model of Chromium's developer tools has of a .cpuprofile, as JSON.
import { readFileSync } from "fs";
import { pathToFileURL } from "url";

const [directory, file] = process.argv.slice(2);
const module = pathToFileURL(`${directory}/models/cpu_profile/cpu_profile.js`);
const { CPUProfileDataModel } = (await import(module)).CPUProfileDataModel;

const model = new CPUProfileDataModel(JSON.parse(readFileSync(file, "utf8")));
const shown = new Map();
model.samples.forEach((id, index) => {
    const time = model.timestamps[index + 1] - model.timestamps[index];
    shown.set(id, (shown.get(id) ?? 0) + time);
});
const nodes = [];
const pending = [[model.profileHead, []]];
while (pending.length > 0) {
    const [node, callers] = pending.pop();
    const stack = node === model.profileHead ? [] : [...callers, node.functionName];
    if (node.self > 0) nodes.push({ stack, own: node.self, shown: shown.get(node.id) ?? 0 });
    for (const child of node.children) pending.push([child, stack]);
}
console.log(JSON.stringify(nodes));
