import { readFile } from 'node:fs/promises';
import { expect } from 'chai';

type Manifest = {
  version: string;
  private: boolean;
  type: string;
  workspaces?: string[];
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
};

const text = (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
const manifest = async (folder: string): Promise<Manifest> => JSON.parse(await text(`${folder}/package.json`));

describe('the npm workspaces', () => {
  let manifests: Manifest[];
  let folders: string[];

  before(async () => {
    const root = await manifest('.');
    folders = root.workspaces ?? [];
    manifests = [root, ...(await Promise.all(folders.map(manifest)))];
  });

  it('are private ES modules with the version of the product', () => {
    const [root, ...others] = manifests;
    for (const { version, private: isPrivate, type } of others) {
      expect({ version, isPrivate, type }).deep.equal({ version: root?.version, isPrivate: true, type: 'module' });
    }
  });

  it('pin exact versions, and one version of each npm package across all workspaces', () => {
    const pins = manifests.flatMap(({ dependencies, devDependencies, optionalDependencies }) =>
      Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }),
    );
    expect(pins.filter(([, version]) => !/^(npm:[\w@/-]+@)?\d+\.\d+\.\d+$/.test(version))).deep.equal([]);
    const versions = Map.groupBy(pins, ([name]) => name);
    const different = [...versions].filter(([, all]) => new Set(all.map(([, version]) => version)).size > 1);
    expect(different.map(([name]) => name)).deep.equal([]);
  });

  it('have their package.json in the image before `npm ci` if production needs their dependencies', async () => {
    const [packages = ''] = (await text('Dockerfile')).split('RUN npm ci');
    const hasDependencies = (index: number) => Object.keys(manifests[index + 1]?.dependencies ?? {}).length > 0;
    const needed = folders.filter((folder, index) => folder.startsWith('services/') && hasDependencies(index));
    expect(needed).include('services/model-server');
    for (const folder of needed) expect(packages).include(`\nCOPY ${folder}/package.json ${folder}/\n`);
  });

  it('have no download URLs in the lock file, since these differ between registries', async () => {
    expect(await text('package-lock.json')).not.match(/"resolved": "http/);
  });
});
