// Compiled and interpreted code, the collector, and calls in both directions.

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

const rows = Array.from({ length: 300 }, (_, n) => ({ n, name: 'x'.repeat(n % 50) }));

process.stdout.write('ready\n');
setInterval(() => {
  fib(18);
  JSON.parse(JSON.stringify(rows)).sort((a, b) => b.name.length - a.name.length || a.n - b.n);
  /(x+x+)+y/.test('x'.repeat(16));
  Buffer.from(JSON.stringify(rows)).toString('base64');
}, 0);
