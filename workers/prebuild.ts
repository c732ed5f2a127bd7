// `node workers/prebuild.ts`: makes the workflows' bundle ahead of the first start, where an image is built.
import { workflowBundle } from './bundle.ts';

await workflowBundle();
const kept = await workflowBundle();
if (!('codePath' in kept))
  throw new Error('The bundle of the workflows could not be written into node_modules/.cache.');
console.log(kept.codePath);
