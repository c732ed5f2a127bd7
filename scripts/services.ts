// `npm run services`: keeps the services that tests need running, to run mocha on single files. Start it in one shell,
// then `source .data-services/env` in another.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { s3Program } from './s3-program.ts';
import { readTestServiceSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { findTestPorts, startTestS3, startTestServices } from './test/services.ts';

await exitAfter(main);

async function main(): Promise<number> {
  const { dataDir, toolsDir, ports } = readTestServiceSettings(process.env);
  const free = await findTestPorts();
  return runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, ending, serves) => {
      const { temporal, temporalUi, ...others } = ports;
      const chosen = Object.fromEntries(Object.entries(others).filter(([, port]) => port !== undefined));
      const [freeTemporal] = free.temporals;
      const [services] = await startTestServices({
        ...{ supervisor, toolsDir, dataDir },
        ports: {
          ...{ ...free, ...chosen },
          temporals: [{ port: temporal ?? freeTemporal.port, uiPort: temporalUi ?? freeTemporal.uiPort }],
        },
      });
      const env = {
        ...services,
        TEMPORAL_DEBUG: '1',
        ...(await startTestS3({ supervisor, program: await s3Program(toolsDir, ending), dataDir, port: free.s3 })),
      };
      const exports = Object.entries(env).map(([name, value]) => `export ${name}='${value}'\n`);
      const envFile = join(dataDir, 'env');
      await writeFile(envFile, exports.join(''), { mode: 0o600 });
      console.log(`The services for tests are up. In another shell: source ${envFile}\nCtrl-C stops them.`);
      serves();
      return supervisor.failed;
    },
  });
}
