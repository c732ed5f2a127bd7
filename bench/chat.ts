// `npm run bench:chat` measures what the product adds to the time to first token, and the memory of open streams.
import { cpus, loadavg } from 'node:os';
import { measureFirstToken } from './chat/first-token.ts';
import { startMeasuredChat } from './chat/measured-chat.ts';
import { measureOpenStreams } from './chat/open-streams.ts';

const chat = await startMeasuredChat();
try {
  for (const measure of [measureFirstToken, measureOpenStreams]) {
    const [load = 0] = loadavg();
    console.log(['', ...(await measure(chat)), '', `Load average of the machine: ${load.toFixed(1)}.`].join('\n'));
  }
  console.log(`\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
} finally {
  await chat.stop();
}
