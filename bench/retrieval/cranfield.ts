import { readDataset } from './datasets.ts';

export type CranfieldQuery = { text: string; relevant: ReadonlySet<string> };

export type Cranfield = {
  documents: { id: string; title: string; text: string }[];
  queries: CranfieldQuery[];
};

/** Reads Cranfield: 1,398 abstracts (two of the 1,400 are empty) and 225 queries with binary relevance. */
export function readCranfield(): Cranfield {
  const documents = elements(readDataset('cranfield', 'cran.all.1400.xml'), 'doc').map((document) => ({
    id: element(document, 'docno'),
    title: element(document, 'title'),
    text: element(document, 'text'),
  }));
  const judgments = readJudgments();
  const queries = elements(readDataset('cranfield', 'cran.qry.xml'), 'top').map((query, index) => ({
    text: element(query, 'title'),
    // Cranfield's judgments refer to a query by its position from 1, not by its own number.
    relevant: judgments.get(index + 1) ?? new Set<string>(),
  }));
  return { documents: documents.filter(({ text }) => text !== ''), queries };
}

function readJudgments(): Map<number, Set<string>> {
  const judgments = new Map<number, Set<string>>();
  for (const line of readDataset('cranfield', 'cranqrel.trec.txt').trim().split('\n')) {
    const [query, , document = '', relevance] = line.trim().split(/\s+/);
    if (Number(relevance) <= 0) continue;
    const relevant = judgments.get(Number(query)) ?? new Set();
    judgments.set(Number(query), relevant.add(document));
  }
  return judgments;
}

function elements(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^]*?)</${name}>`, 'g'))].map(([, content = '']) => content);
}

/** Returns the text of an XML element on one line, because the files are hard-wrapped. */
function element(xml: string, name: string): string {
  return (elements(xml, name)[0] ?? '').replace(/\s+/g, ' ').trim();
}
