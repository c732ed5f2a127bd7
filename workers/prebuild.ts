// Builds both workflow bundles (with and without payload encryption) when a container image is built.
import { temporalFailureConverterPath } from '#src/temporal/data-converter.ts';
import { buildWorkflowBundle } from './bundle.ts';

for (const kind of [{}, { failureConverterPath: temporalFailureConverterPath }]) {
  await buildWorkflowBundle(kind);
  const cached = await buildWorkflowBundle(kind);
  if (!('codePath' in cached)) throw new Error('The workflow bundle could not be written to node_modules/.cache.');
  console.log(cached.codePath);
}
