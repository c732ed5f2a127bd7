import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const { platform, arch } = process;
const cpu = arch === 'x64' ? 'x86_64' : 'aarch64';
const system = platform === 'darwin' ? 'apple-darwin' : 'unknown-linux-gnu';

/** Files of packages that nothing here reads; npm has no option that leaves them out. Paths begin in node_modules. */
const UNUSED = [
  // Native libraries for other systems and CPUs.
  new RegExp(`^onnxruntime-node/bin/napi-v\\d+/(?!${platform}/${arch}/)`),
  new RegExp(`^@temporalio/core-bridge/releases/(?!${cpu}-${system}/)`),
  new RegExp(`^@node-llama-cpp/(?!(?:linux|mac)-${arch})[^/]+/bins/`),
  // The sources of llama.cpp, for those who build it.
  /^node-llama-cpp\/llama\/gitRelease\.bundle$/,
  // Headers for native addons.
  /^node-[^/]+\/include\//,
  // Builds for CPUs without SIMD or with an experimental one, and of the older engine.
  /^tesseract\.js-core\/tesseract-core(?!-simd-lstm\.)/,
  // Larger models of the language detector.
  /^eld\/src\/ngrams\/(?!extrasmall)/,
  // The larger model of each language of OCR.
  /^@tesseract\.js-data\/\w+\/4\.0\.0\//,
  // Sources beside their builds, and builds for CommonJS.
  /^(gpt-tokenizer|openai|rxjs|zod)\/src\//,
  /^gpt-tokenizer\/(cjs|data)\//,
  /\.map$/,
];

/**
 * Deletes the files of packages that are not used here, about 630 MB.
 * @param {string} modules path of node_modules
 */
export function removeUnusedFiles(modules) {
  for (const name of readdirSync(modules, { recursive: true, encoding: 'utf8' })) {
    const path = join(modules, name);
    const isUnused = UNUSED.some((pattern) => pattern.test(name.replaceAll(sep, '/')));
    if (isUnused && lstatSync(path).isFile()) rmSync(path);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) removeUnusedFiles(process.argv[2] ?? 'node_modules');
