// Builds both workflow bundles (with and without payload encryption) when a container image is built.
import { failureConverterPath } from '#src/temporal/data-converter.ts';
import { workflowBundle } from './bundle.ts';

for (const kind of [{}, { failureConverterPath }]) {
  await workflowBundle(kind);
  const cached = await workflowBundle(kind);
  if (!('codePath' in cached)) throw new Error('The workflow bundle could not be written to node_modules/.cache.');
  console.log(cached.codePath);
}
