// `npm start`: every service, migrations, worker and API under one supervisor, until it is asked to stop.
import { readyText, startEmbedded } from './embedded-mode.ts';
import { readStartSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';

await exitAfter(async () => {
  const settings = readStartSettings(process.env);
  return runUntilStopped({
    dataDir: settings.dataDir,
    log: (line) => console.error(line),
    work: async (supervisor) => {
      const addresses = await startEmbedded(settings, supervisor);
      console.log(readyText(`is ready, after ${(performance.now() / 1000).toFixed(1)} s`, settings, addresses));
      return supervisor.failed;
    },
  });
});
