// `node workers/prebuild.ts`: makes the workflows' bundles ahead of the first start, where an image is built: one for
// installations that encrypt what Temporal stores, and one for the others.
import { failureConverterPath } from '#src/temporal/data-converter.ts';
import { workflowBundle } from './bundle.ts';

for (const kind of [{}, { failureConverterPath }]) {
  await workflowBundle(kind);
  const kept = await workflowBundle(kind);
  if (!('codePath' in kept))
    throw new Error('The bundle of the workflows could not be written into node_modules/.cache.');
  console.log(kept.codePath);
}
