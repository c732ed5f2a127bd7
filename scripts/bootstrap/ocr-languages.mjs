// `node scripts/bootstrap/ocr-languages.mjs` in a folder with node_modules: installs the data that OCR_LANGUAGES needs.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BootstrapFailure, runQuietly, withoutLocalPrograms } from './child.mjs';

const VERSION = '1.0.0';
/** SHA-512 of the npm packages `@tesseract.js-data/<language>`. English is a dependency of the product. */
const HASHES = new Map([
  ['deu', '3ter1p2gFAiCd5CMC+PodZ9YY2UDomkKj+ytlKeeZqOUmhLx1SDnYPf5zog0g5MBbxYveW+8omI3PUflqHfZ4Q=='],
  ['fra', 'pp58gMaoyidoBBLd5y5rnf0WW0Y1994QrGqZrYatITqIU/AReUJMykD+YY3JDgvnmgz7uAx1UmhjjuyEmV8JEA=='],
  ['ita', 'Sx19NVYve5VAxEBDL6CWTX+evlvzV+iAS5ejJywcHVsmir/C9Tzw2fExoh97QFc06t48tYZA8VrMobsBzMAEhA=='],
  ['nld', 'Fq9TDxewYAw3YBLqLYEu3rziNUHq0F1NnnM49vI0E5o6S2oKcirhTumGvv8ws088+li1llyKXT9nfrHuxxetHQ=='],
  ['por', 'sQ7GqYUgKaMmV0vNujYoXLlXUp2e5RGGkJxQ3L59kUOaupIugLJeb1dqhrfgyb71XQw7ltdSuXdQIoaoS/rpsQ=='],
  ['spa', '9Ln+QKq/TNu4Hy4aOp5b4nXo9U0C6IqJMzNDpAJZe/fNtz6jXG9G/hQgR/Irxj+RGf0M7Xy1MNx1yl4wQUIfeg=='],
]);

/**
 * Returns the languages in OCR_LANGUAGES whose data can be installed and is not.
 * @param {string} root
 */
export function missingOcrLanguages(root) {
  const wanted = (process.env.OCR_LANGUAGES ?? '').split(',').map((language) => language.trim());
  return wanted.filter((language) => HASHES.has(language) && !existsSync(dataFolder(root, language)));
}

/**
 * Installs the smaller of the two models in the package of each language.
 * @param {string} root
 * @param {readonly string[]} languages
 */
export async function installOcrLanguages(root, languages) {
  for (const language of languages) {
    const folder = mkdtempSync(join(tmpdir(), 'ocr-language-'));
    try {
      const npm = ['pack', `@tesseract.js-data/${language}@${VERSION}`, '--pack-destination', folder];
      await run(language, 'npm', [...npm, '--loglevel=error'], withoutLocalPrograms(process.env));
      const archive = join(folder, `tesseract.js-data-${language}-${VERSION}.tgz`);
      if (createHash('sha512').update(readFileSync(archive)).digest('base64') !== HASHES.get(language))
        throw new BootstrapFailure(`The package of OCR for ${language} does not have the pinned SHA-512.`);
      const draft = `${dataFolder(root, language)}.new`;
      rmSync(draft, { recursive: true, force: true });
      mkdirSync(draft, { recursive: true });
      const members = ['package/package.json', 'package/4.0.0_best_int'];
      await run(language, 'tar', ['-xzf', archive, '-C', draft, '--strip-components=1', ...members]);
      renameSync(draft, dataFolder(root, language));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

/**
 * @param {string} root
 * @param {string} language
 */
function dataFolder(root, language) {
  return join(root, 'node_modules', '@tesseract.js-data', language);
}

/**
 * @param {string} language
 * @param {string} program
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
async function run(language, program, args, env) {
  const { code, output } = await runQuietly(program, args, env);
  if (code !== 0) throw new BootstrapFailure(`The data of OCR for ${language} was not installed:\n${output.trim()}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await installOcrLanguages('.', missingOcrLanguages('.'));
