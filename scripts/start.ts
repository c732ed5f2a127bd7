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
      console.log(readyText(settings, await startEmbedded(settings, supervisor)));
      return supervisor.failed;
    },
  });
});
