import { expect } from 'chai';
import fc from 'fast-check';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import iconv from 'iconv-lite';
import { findHtmlTitle } from '#src/adapters/converter/page-title.ts';
import { detectLanguage } from '#src/adapters/text/language-detector.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { createTopicWordIndex } from '#src/adapters/text/topic-words.ts';
import { createTimeTool } from '#src/adapters/tools/built-in-executors.ts';
import { contentDispositionFileName } from '#src/adapters/web/guarded-fetch.ts';
import { cosineSimilarity, modelsWithAlignmentCalibration } from '#src/domain/alignment/score.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { propertyRuns } from '#test/support/seeded.ts';
import { refusal, toolContext } from '#test/support/tool-context.ts';

const analyze = createTextAnalyzer();

describe('the text analyzer', () => {
  it('lower-cases, splits on anything but letters and digits of all scripts, and stems', () => {
    const stems = analyze('Booking FLIGHTS, re-booked in 2024!').map((term) => term.stem);
    expect(stems).deep.equal(['book', 'flight', 're', 'book', 'in', '2024']);
    expect(contentStems(analyze('Über 世界 Ｆｕｌｌ'))).deep.equal(['über', '世界', 'full']);
  });

  it('stems by language, and words in another script by a language of their script', () => {
    for (const [language, text, stems] of [
      ['de', 'Die Kündigungen der Häuser', ['kundig', 'haus']],
      ['es', '¿Cuántos contratos firmaron? La cuenta.', ['contrat', 'firm', 'cuent']],
      ['ru', 'Договоры о перевозках и flights', ['договор', 'перевозк', 'flight']],
      ['en', 'Договоры, contracts', ['договор', 'contract']],
      ['tr', 'İZMİR', ['izmir']],
      ['vi', 'Hợp đồng', ['hợp', 'đồng']],
      ['bg', 'театър', ['театър']],
      ['zh', '东京塔 BM25 flights 水', ['东京', '京塔', 'bm25', 'flight', '水']],
      ['ja', 'カメラ', ['カメ', 'メラ']],
      ['ko', '서울은', ['서울', '울은']],
      ['th', 'สัญญาเช่าทำงาน', ['สัญญา', 'เช่า', 'ทำงาน']],
      ['lo', 'ສັນຍາ', ['ສັນຍາ']],
    ] as const) {
      expect(contentStems(analyze(text, language)), language).deep.equal(stems);
    }
  });

  it("marks stop words, and treats both parts of a contraction such as don't as stop words", () => {
    expect(contentStems(analyze("I don't want the loans"))).deep.equal(['want', 'loan']);
  });
});

describe('the language detector', () => {
  it('needs a majority of beginning, middle and end, and does not guess for text without words', async () => {
    const german = 'Der Mieter zahlt die Miete jeden Monat im Voraus. '.repeat(40);
    const russian = 'Арендатор платит арендную плату каждый месяц вперёд. '.repeat(40);
    const english = 'The tenant pays the rent every month in advance. '.repeat(40);
    for (const [text, language] of [
      [english, 'en'],
      ['Người thuê nhà trả tiền thuê hàng tháng.', 'vi'],
      ['租户每月提前支付租金。', 'zh'],
      ['កិច្ចសន្យានេះមានសុពលភាព', 'km'],
      [german + german + english, 'de'],
      [german + russian + english, 'und'],
      ['1.5 | 2.5 | 3.5', 'und'],
      ['', 'und'],
    ] as const) {
      expect(await detectLanguage(text), text.slice(0, 20)).equal(language);
    }
  });
});

describe('the token counter', () => {
  const counter = createTokenCounter();
  const count = (text: string) =>
    encode(text, { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() }).length;
  /** Borders that are hard to tokenize: contractions, marks, surrogate pairs, spaces, slashes after breaks. */
  const pieces = [
    ...['word', ' ', '  ', '\n', '\r\n', '\t', '/', "'s", '.', '。', '123', '4567', '-', '😀', '𝐀', '世界', 'É', 'é'],
    ...['<|endoftext|>', '…', '“', 'HelloWorld', '\u200d', '\u0301', "don't", '|', ': ', '. '],
  ];
  const awkward = fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'grapheme', maxLength: 4 }));
  const awkwardText = fc.array(awkward, { maxLength: 30 }).map((parts) => parts.join(''));

  it('counts the tokens of a text, and of any slice of the text, like the reference encoding', () => {
    fc.assert(
      fc.property(awkwardText, fc.nat(), fc.nat(), (text, a, b) => {
        const [start, end] = [a % (text.length + 1), b % (text.length + 1)].sort((x, y) => x - y) as [number, number];
        const isSame = counter.measure(text)(start, end) === count(text.slice(start, end));
        return isSame && counter.count(text) === count(text);
      }),
      { numRuns: propertyRuns(5000) },
    );
  });

  it('counts the tokens of 200,000 letters without a space approximately', () => {
    expect(counter.count('ab'.repeat(100_000))).within(50_000, 51_000);
  });
});

describe('the packaged list of topic words', () => {
  for (const model of modelsWithAlignmentCalibration) {
    it(`has over 10,000 distinct content words, with vectors of ${model}, close for related words`, async () => {
      const index = createTopicWordIndex({ model });
      const all = await index.nearest(() => 0, 20_000);
      const words = all.map(({ word }) => word);
      expect(words).length.above(10_000);
      expect(new Set(words).size).equal(words.length);
      const isEmpty = (word: string) => contentStems(analyze(word)).length === 0 || analyze(word).length > 3;
      expect(words.filter(isEmpty)).deep.equal([]);
      const planet = all[words.indexOf('planet')]?.vector ?? new Float32Array();
      const near = (await index.nearest((vector) => cosineSimilarity(vector, planet), 20)).map(({ word }) => word);
      expect(near[0]).equal('planet');
      expect(near).include.members(['exoplanet', 'solar system']);
    });
  }

  it('rejects a model for which it has no vectors', async () => {
    const asked = createTopicWordIndex({ model: 'another' }).nearest(() => 0, 1);
    expect(await asked.catch((fault: unknown) => fault)).instanceOf(Error);
  });
});

describe('the file name of a Content-Disposition header', () => {
  it('is parsed from every form of the header', () => {
    for (const [header, name] of [
      ['attachment; filename="a b.pdf"', 'a b.pdf'],
      ['attachment; filename=report.pdf; size=7', 'report.pdf'],
      ['inline; filename="a \\"quoted\\" name.txt"', 'a "quoted" name.txt'],
      [`attachment; filename="x.txt"; filename*=UTF-8''%C3%9Cber%20uns.txt`, 'Über uns.txt'],
      [`attachment; filename*=iso-8859-1'en'%A3%20rates.txt`, '£ rates.txt'],
      [`attachment; filename="x.txt"; filename*=UTF-8''%FF`, 'x.txt'],
      ['attachment; filename=""', null],
      ['inline', null],
      ['', null],
    ] as const) {
      expect(contentDispositionFileName(header), header).equal(name);
    }
  });
});

describe('the title of a web page', () => {
  const titled = (title: string) => `<!doctype html><html><head><title>${title}</title></head><body>`;

  it('is one line with decoded entities, in the charset that the server or else the page declares', () => {
    const russian = iconv.encode(titled('Быстрая лиса'), 'windows-1251');
    const named = iconv.encode(`<meta charset="windows-1251">${titled('Быстрая лиса')}`, 'windows-1251');
    for (const [bytes, type, title] of [
      [titled('\n Q&amp;A &ndash;\n caf&eacute; &#x1F98A; '), 'text/html', 'Q&A – café 🦊'],
      [russian, 'text/html; charset=windows-1251', 'Быстрая лиса'],
      [named, 'text/html', 'Быстрая лиса'],
      ['<p>Fox</p>', 'text/html', null],
      [titled(' \n'), 'text/html', null],
      ['<html><title>cut of', 'text/html', null],
      [titled('Fox'), 'text/plain', null],
    ] as const) {
      expect(findHtmlTitle(Buffer.from(bytes as string), type)).equal(title);
    }
  });
});

describe('the tool time.now', () => {
  it('returns day, time and time zone, and rejects an unknown time zone', async () => {
    const now = createTimeTool(() => new Date('2026-11-22T14:04:05Z'));
    expect(await now({}, toolContext)).equal('Sunday, 2026-11-22 14:04:05 GMT+00:00 (UTC)');
    const india = { time_zone: 'Asia/Kolkata' };
    expect(await now(india, toolContext)).equal('Sunday, 2026-11-22 19:34:05 GMT+05:30 (Asia/Kolkata)');
    expect(await refusal(now, { time_zone: 'Mars/Olympus' })).match(/must be an IANA time zone/);
  });
});
