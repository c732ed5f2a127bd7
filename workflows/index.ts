export { auditStores } from './audit-stores.ts';
export { deleteDocument } from './delete-document.ts';
export { eraseContent } from './erase-content.ts';
export { ingestDocument } from './ingest-document.ts';
export { proposeAnchorWords } from './propose-anchor-words.ts';
export { reembedOrganization } from './reembed-organization.ts';
export { scoreAlignment } from './score-alignment.ts';
