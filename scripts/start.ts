// `npm start [-- --with-sso]`: starts all services, migrates the database, and runs worker and API until it is stopped.
import { readyText, startEmbedded } from './embedded-mode.ts';
import { readStartSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';

await exitAfter(async () => {
  const settings = readStartSettings(process.env, process.argv.slice(2));
  return runUntilStopped({
    dataDir: settings.dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, _ending, serves) => {
      const addresses = await startEmbedded(settings, supervisor, (line) => console.error(line));
      serves();
      console.log(readyText(`is ready, after ${(performance.now() / 1000).toFixed(1)} s`, settings, addresses));
      return supervisor.failed;
    },
  });
});
