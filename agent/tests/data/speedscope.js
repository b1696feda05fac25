// node speedscope.js BUNDLE FILE: the profiles that speedscope's importers read in a file, as JSON.
//
// All of speedscope is one program for a page. It loads its importers as a module of their own, by a
// promise, before it looks for the page; here it runs without one, and the promise is seen. Nothing
// else is known of it than what the functions in its source are called.
"use strict";
const { readFileSync } = require("fs");
const { basename } = require("path");
const { createContext, runInContext } = require("vm");

const [bundle, file] = process.argv.slice(2);

// Whatever is asked of it is something, of which anything can be asked.
const anything = new Proxy(function () {}, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => "" : anything),
    apply: () => anything,
    construct: () => anything,
});

const NO_PAGE = "there is no page";
const page = {
    addEventListener() {},
    atob,
    console: { assert() {}, error() {}, log() {}, warn() {} },
    document: new Proxy({}, {
        get(_, key) {
            if (key === "body") throw new Error(NO_PAGE);
            return anything;
        },
    }),
    localStorage: anything,
    location: anything,
    matchMedia: anything,
    navigator: anything,
    requestAnimationFrame() {},
    setTimeout() {},
    TextDecoder,
    TextEncoder,
    URLSearchParams,
};
page.self = page.window = page;

const importers = new Promise((found) => {
    page.found = found;
});
createContext(page);
runInContext(`{
    const then = Promise.prototype.then;
    Promise.prototype.then = function (...next) {
        const result = then.apply(this, next);
        then.call(result, (module) => {
            // As what it is, a module would be asked whether it is a promise.
            if (module?.importProfilesFromArrayBuffer) found([module]);
        }, () => {});
        return result;
    };
}`, page);
try {
    runInContext(readFileSync(bundle, "utf8"), page);
} catch (error) {
    if (error.message !== NO_PAGE) throw error;
}

importers.then(async ([module]) => {
    const bytes = new Uint8Array(readFileSync(file)).buffer;
    const group = await module.importProfilesFromArrayBuffer(basename(file), bytes);
    console.log(JSON.stringify(group.profiles.map(read)));
});

function read(profile) {
    const frames = [];
    const indices = new Map();
    profile.forEachFrame((frame) => {
        indices.set(frame, frames.length);
        frames.push({ name: frame.name, file: frame.file, line: frame.line });
    });
    const stacks = profile.samples.map((leaf, sample) => {
        const stack = [];
        for (let node = leaf; node?.parent; node = node.parent) stack.unshift(indices.get(node.frame));
        return [stack, profile.weights[sample]];
    });
    const unit = profile.getWeightUnit();
    return { name: profile.getName(), unit, total: profile.getTotalWeight(), frames, stacks };
}
