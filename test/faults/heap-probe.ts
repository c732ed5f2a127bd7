// Preloaded into a process under test: on SIGUSR2 it collects its garbage and writes what is left of its heap.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

process.on('SIGUSR2', () => {
  // What the first leaves to finalizers, the second takes.
  collectGarbage();
  setImmediate(() => {
    collectGarbage();
    const { heapUsed, rss } = process.memoryUsage();
    console.log(JSON.stringify({ probe: 'heap', heapBytes: heapUsed, rssBytes: rss }));
  });
});
