// `node workers/prebuild.ts` builds both workflow bundles (with and without payload encryption) while an image is
// built, so that the first start of a worker does not need the bundler.
import { failureConverterPath } from '#src/temporal/data-converter.ts';
import { workflowBundle } from './bundle.ts';

for (const kind of [{}, { failureConverterPath }]) {
  await workflowBundle(kind);
  const cached = await workflowBundle(kind);
  if (!('codePath' in cached)) throw new Error('The workflow bundle could not be written to node_modules/.cache.');
  console.log(cached.codePath);
}
