/** Preloaded into a process of the program, with --expose-gc: tells its parent what memory is left after a collection. */
process.on('message', () => {
  globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  process.send({ heap: heapUsed + external, rss });
});
// The program ends when its own work is over.
process.channel?.unref();
