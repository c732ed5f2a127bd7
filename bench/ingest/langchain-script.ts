// `node langchain-script.ts FOLDER`: ingests PDFs with a typical LangChain.js script, in a process of its own.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RecursiveCharacterTextSplitter } from '@langchain/textsplitters';
import { Tiktoken } from 'js-tiktoken/lite';
import o200kBase from 'js-tiktoken/ranks/o200k_base';
import OpenAI from 'openai';
import pg from 'pg';
import { extractText, getDocumentProxy } from 'unpdf';

export type ScriptFigures = { ms: number; cpuMs: number; pages: number; chunks: number };

const folder = process.argv[2] ?? '';
const model = process.env.EMBEDDING_MODEL ?? '';
const tiktoken = new Tiktoken(o200kBase);
const splitter = new RecursiveCharacterTextSplitter({
  chunkSize: 400,
  chunkOverlap: 60,
  lengthFunction: (text) => tiktoken.encode(text, [], []).length,
});
const openai = new OpenAI({ apiKey: 'local' });
const database = new pg.Client({ connectionString: process.env.DATABASE_URL });
await database.connect();
await database.query(
  `create table if not exists langchain_chunks
     (id uuid primary key default gen_random_uuid(), content text, metadata jsonb, embedding vector)`,
);

/** Splits page by page as PDFLoader does; embeds and inserts all chunks of a document in one call each. */
async function ingest(source: string): Promise<{ pages: number; chunks: number }> {
  const pdf = await getDocumentProxy(new Uint8Array(await readFile(join(folder, source))));
  const { text } = await extractText(pdf, { mergePages: false });
  const chunks = await splitter.createDocuments(
    // Postgres rejects NUL characters, which the text of some PDF fonts has.
    text.map((page) => page.replaceAll('\0', '')),
    text.map((_, page) => ({ source, page: page + 1 })),
  );
  const input = chunks.map(({ pageContent }) => pageContent);
  const { data } = await openai.embeddings.create({ model, input });
  await database.query(
    `insert into langchain_chunks (content, metadata, embedding)
     select * from unnest($1::text[], $2::jsonb[], $3::vector[])`,
    [input, chunks.map(({ metadata }) => metadata), data.map(({ embedding }) => JSON.stringify(embedding))],
  );
  return { pages: text.length, chunks: chunks.length };
}

const sources = (await readdir(folder)).sort();
await ingest(sources[0] ?? '');
const before = process.cpuUsage();
const startedAt = performance.now();
const counts = { pages: 0, chunks: 0 };
for (const source of sources) {
  const { pages, chunks } = await ingest(source);
  counts.pages += pages;
  counts.chunks += chunks;
}
const ms = performance.now() - startedAt;
const { user, system } = process.cpuUsage(before);
await database.end();
console.log(JSON.stringify({ ms, cpuMs: (user + system) / 1_000, ...counts } satisfies ScriptFigures));
