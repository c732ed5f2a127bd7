import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

const ROOT = join(import.meta.dirname, '..', '..');
const CHART = 'deploy/helm/agent-conversation-service';
const REQUIREMENTS = ['runtime', 'postgres', 'tools'].map((name) => `scripts/requirements-${name}.txt`);

export type PinnedVersion = { name: string; version: string; file: string };
export type ReadFile = (path: string) => string;

const versionRange = z.strictObject({
  introduced: z.string().optional(),
  fixed: z.string().optional(),
  lastAffected: z.string().optional(),
});
const knownVulnerabilities = z.strictObject({
  components: z.array(
    z.strictObject({
      name: z.string(),
      pinnedAs: z.array(z.string()),
      /** The versions of bundled components, by version of the package that bundles them. */
      contains: z.record(z.string(), z.record(z.string(), z.string())).optional(),
      accepted: z.record(z.string(), z.string()).optional(),
      advisories: z.array(
        z.strictObject({
          ids: z.array(z.string().regex(/^(?:CVE-\d{4}-\d+|GHSA(?:-[a-z0-9]{4}){3})$/)).min(1),
          summary: z.string(),
          affected: z.array(versionRange).min(1),
          reference: z.url(),
        }),
      ),
    }),
  ),
});
type Component = z.infer<typeof knownVulnerabilities>['components'][number];
type Advisory = Component['advisories'][number];

const readRepositoryFile: ReadFile = (path) => readFileSync(join(ROOT, path), 'utf8');

/**
 * Compares the versions that Compose, the chart, the Dockerfile and the bootstrap pin with the advisories in
 * `deploy/known-vulnerabilities.json`.
 * @returns one line for each vulnerable version, and for each version that the list does not contain
 */
export function versionProblems(read: ReadFile = readRepositoryFile): string[] {
  const { components } = knownVulnerabilities.parse(JSON.parse(read('deploy/known-vulnerabilities.json')));
  const pins = readPins(read);
  const unused = components.flatMap(({ accepted = {} }) =>
    Object.keys(accepted).filter((key) => !pins.some(({ name, version }) => `${name}@${version}` === key)),
  );
  return [
    ...new Set(pins.flatMap((pin) => problemsOf(pin, components))),
    ...unused.map((key) => `deploy/known-vulnerabilities.json accepts ${key}, which no file pins. Remove the line.`),
  ];
}

function problemsOf(pin: PinnedVersion, components: readonly Component[]): string[] {
  const pinned = `${pin.file} pins ${pin.name} ${pin.version}`;
  const component = components.find(({ pinnedAs }) => pinnedAs.includes(pin.name));
  if (component === undefined) {
    return [`${pinned}. Add it to deploy/known-vulnerabilities.json, with the advisories that are published of it.`];
  }
  const isAccepted = component.accepted?.[`${pin.name}@${pin.version}`] !== undefined;
  const own = isAccepted ? [] : advisoriesOf(component, pin.version).map((advisory) => refusal(pinned, advisory));
  if (component.contains === undefined) return own;
  const contents = component.contains[pin.version];
  if (contents === undefined) {
    return [...own, `${pinned}. Add what it contains to deploy/known-vulnerabilities.json.`];
  }
  return [
    ...own,
    ...Object.entries(contents).flatMap(([name, version]) => {
      const inner = components.find((candidate) => candidate.name === name);
      if (inner === undefined) return [`deploy/known-vulnerabilities.json has no component ${name}.`];
      return advisoriesOf(inner, version).map((advisory) =>
        refusal(`${pinned}, which contains ${name} ${version}`, advisory),
      );
    }),
  ];
}

function advisoriesOf(component: Component, version: string): Advisory[] {
  return component.advisories.filter(({ affected }) =>
    affected.some(
      ({ introduced = '0', fixed, lastAffected }) =>
        compareVersions(version, introduced) >= 0 &&
        (fixed === undefined || compareVersions(version, fixed) < 0) &&
        (lastAffected === undefined || compareVersions(version, lastAffected) <= 0),
    ),
  );
}

function refusal(pinned: string, { ids, summary, affected, reference }: Advisory): string {
  const fixes = affected.flatMap(({ fixed }) => (fixed === undefined ? [] : [fixed]));
  const advice = fixes.length === 0 ? 'Pin a newer version.' : `Fixed in ${fixes.join(', ')}.`;
  return `${pinned}: ${ids.join(', ')}. ${summary}. ${advice} ${reference}`;
}

/** Compares the leading version numbers of tags such as `v1.18.2` and `0.8.6-pg18`. Missing numbers count as 0. */
function compareVersions(left: string, right: string): number {
  const [a, b] = [left, right].map((version) => (/\d+(?:\.\d+)*/.exec(version)?.[0] ?? '0').split('.').map(Number));
  for (let index = 0; index < Math.max(a?.length ?? 0, b?.length ?? 0); index += 1) {
    const difference = (a?.[index] ?? 0) - (b?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function readPins(read: ReadFile): PinnedVersion[] {
  const compose = z
    .object({ services: z.record(z.string(), z.object({ image: z.string() })) })
    .parse(parse(read('docker-compose.yml'), { merge: true }));
  const { optionalDependencies } = z
    .object({ optionalDependencies: z.record(z.string(), z.string()) })
    .parse(JSON.parse(read('package.json')));
  const nodeVersion = /^ARG NODE_VERSION=(.+)$/m.exec(read('Dockerfile'))?.[1] ?? '';
  return [
    ...Object.values(compose.services).flatMap(({ image }) => imagePin(image, 'docker-compose.yml')),
    ...['api', 'migrate', 'model-server', 'workers'].flatMap((name) => {
      const file = `${CHART}/templates/${name}.yaml`;
      return [...read(file).matchAll(/^\s*image: ([\w./-]+:\S+)$/gm)].flatMap(([, image = '']) =>
        imagePin(image, file),
      );
    }),
    ...[...read('Dockerfile').matchAll(/^FROM (\S+:\S+)/gm)].flatMap(([, image = '']) =>
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the Dockerfile's own variable
      imagePin(image.replace('${NODE_VERSION}', nodeVersion), 'Dockerfile'),
    ),
    ...Object.entries(optionalDependencies).map(([name, version]) => ({ name, version, file: 'package.json' })),
    ...REQUIREMENTS.flatMap((file) =>
      [...read(file).matchAll(/^([\w.-]+)==([^\s;]+)/gm)].map(([, name = '', version = '']) => ({
        name,
        version,
        file,
      })),
    ),
  ];
}

function imagePin(image: string, file: string): PinnedVersion[] {
  if (image.includes('agent-conversation-service')) return [];
  const [, name, version] =
    /^(?:docker\.io\/)?(?:library\/)?([\w./-]+):([\w.-]+)(?:@sha256:[0-9a-f]{64})?$/.exec(image) ?? [];
  if (name === undefined || version === undefined)
    throw new Error(`${file}: the image ${image} has no version (name:version).`);
  return [{ name, version, file }];
}
