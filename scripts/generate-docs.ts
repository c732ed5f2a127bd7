// `npm run docs`: writes the pages of docs/ that are generated from the code, and .env.example, generated from
// docs/settings.md.
import { readFile, writeFile } from 'node:fs/promises';
import { envExample } from './env-example.ts';
import { errorsPage } from './errors-page.ts';

const path = (name: string) => new URL(`../${name}`, import.meta.url);

await writeFile(path('docs/errors.md'), errorsPage());
await writeFile(path('.env.example'), envExample(await readFile(path('docs/settings.md'), 'utf8')));
