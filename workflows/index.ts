export { ingestDocument } from './ingest-document.ts';
