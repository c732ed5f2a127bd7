import { expect } from 'chai';
import fc from 'fast-check';
import { marked } from 'marked';
import { createLinkFilter, removeLinks } from '#src/domain/chat/link-filter.ts';
import { extractUrls } from '#src/domain/chat/urls.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const known = 'https://bank.example/rates?year=2026';
const other = 'https://docs.example/reset?key=7';

function rewrite(...pieces: string[]): string {
  return rewriteAll(pieces);
}

function rewriteAll(pieces: readonly string[]): string {
  const filter = createLinkFilter(new Set([known, other]));
  return pieces.map(filter.add).join('') + filter.end();
}

describe('addresses in a reply', () => {
  for (const [what, said, shown] of [
    ['an image', 'See ![a chart](https://evil.example/?d=key).', 'See ! [a chart] (link removed).'],
    ['an image of a known address', `![chart](${known})`, `! [chart](${known})`],
    ['a link', '[Terms](https://evil.example/key) apply', '[Terms] (link removed) apply'],
    ['a link in angle brackets', '[Terms](<https://evil.example/key> "now")', '[Terms] (link removed)'],
    ['a link with brackets in it', '[a](https://evil.example/b_(c))!', '[a] (link removed)!'],
    ['a known link', `[Rates](${known} "of 2026") apply`, `[Rates](${known} "of 2026") apply`],
    ['a known link with more behind a mark', `[a](${known}\ufeff"x.evil.example/key")`, '[a] (link removed)'],
    ['a known link with more behind it', `[Rates](${known}&d=key)`, '[Rates] (link removed)'],
    ['a known link that closes a sentence', `([Rates](${known})). **[a](${known})**:`, null],
    ['a known link before a word', `[Rates](${known})key`, `[Rates](${known}) key`],
    ['a known link before a marker', `[Rates](${known})[1]`, `[Rates](${known}) [1]`],
    ['a known link without a text', `](${known})1. `, `](${known}) 1. `],
    ['a known link without a text, with more behind signs', `](${known}).*key`, `](${known}) .*key`],
    ['a reference', '![a][b]\n\n[b]: https://evil.example/key', '! [a][b]\n\n[b] : (link removed)'],
    ['an address alone', 'Go to https://evil.example/?d=key, now.', 'Go to (link removed), now.'],
    ['an address without its scheme', 'Go to www.evil.example/key or ww.', 'Go to (link removed) or ww.'],
    ['an unusual scheme', 'Open ms-word:ofu|u|x://evil.example', 'Open ms-word:ofu|u|x (link removed)'],
    ['an address in a word', 'xhttps://evil.example awww.evil', 'xhttps (link removed) awww.evil'],
    ['an escaped address', String.raw`https:\/\/evil.example/key`, '(link removed)'],
    ['a mail', 'mailto:eve@evil.example?body=key', '(link removed)'],
    ['known ones', `(${known}) **${known}**, "${known}".`, `(${known}) **${known}**, "${known}".`],
    ['a known one as its own text', `[${known}](${known})`, `[${known} ](${known})`],
    ['a known one before the link to another', `${known}](${other})`, `${known} ](${other})`],
    ['a known one before signs and the link to another', `${known}"](${other})`, `${known} "](${other})`],
    ['a known one before quoted words', `${known}"<3key"`, `${known} "<3key"`],
    [
      'a known link without a text, with an image for a title',
      `](${known} "![x](https://e.example/k)")`,
      `](${known})`,
    ],
    ['a known link with a fence for a title', `[a](${known} "\n\`\`\`\n")`, `[a](${known})`],
    ['a known link with an address for a title', `](${known} "www.evil.example")`, `](${known})`],
    ['a known link in an emphasis before a source', `**[a](${known})**[1]`, `**[a](${known})** [1]`],
    ['a known link in an emphasis before a picture', `**[a](${known})**😀`, `**[a](${known}) **😀`],
    ['a known link before an emphasis', `[a](${known})**b**`, `[a](${known}) **b**`],
    ['a known link before quoted words', `](${known})"<3key"`, `](${known}) "<3key"`],
    ['a known one before a mark of byte order', `${known}\ufeff.evil.example/key`, `${known} \ufeff.evil.example/key`],
    ['a known one before an unusual space', `${known}\u00a0.evil.example`, `${known} \u00a0.evil.example`],
    ['a known one before a marker', `${known}[1]`, `${known} [1]`],
    ['an autolink', '<https://evil.example/key>', '< https://evil.example/key>'.replace(/https.*y/, '(link removed)')],
    ['HTML', '<img src=//evil.example/key>', '< img src=//evil.example/key>'],
    ['style', '<p style="background:url(https://evil.example/k)">', '< p style="background:url((link removed))">'],
    ['a script as an address', '[a](javascript:alert(1))', '[a] (link removed)'],
    ['data as an address', '![a](data:image/svg+xml,<svg/onload=x>)', '! [a] (data:image/svg+xml,< svg/onload=x>)'],
    ['entities', '&#104;ttps&colon;//evil.example', '& #104;ttps& colon;//evil.example'],
    ['a text that is split by a line', '[a\n](https://evil.example/k)', '[a\n] (link removed)'],
  ] as const) {
    it(`are neutral: ${what}`, () => expect(rewrite(said)).equal(shown ?? said));
  }

  for (const text of [
    'Plain text, with [1], [2, 3]. And a < b, c <= d & e; "f": {g} (h) [i] - 10:30!',
    'According to [1]: the rate is low.',
    '```html\n<img src="https://api.example/x">\n![a](https://api.example)\n```\nend',
    '~~~\nhttps://api.example\n```\n~~~~\nend',
    '```c++ {1,3-4} title="main.cc"\nhttps://api.example\n```\nend',
    '```objective-c\nhttps://api.example\n```\nend',
  ]) {
    it(`leave alone: ${JSON.stringify(text.slice(0, 30))}`, () => expect(rewrite(text)).equal(text));
  }

  it('are neutral behind a fence of which readers differ', () => {
    const image = '![a](https://evil.example/k)';
    for (const before of [
      ' ```\n```\n',
      '- ```\n```\n',
      '$$\n```\n$$\n',
      '``` a`b\n',
      '```mermaid\n',
      '~~~ {.plantuml}\n',
      '```merm&#97;id\n',
      '```merm\\aid\n',
      '``` {#chart .mermaid}\n',
      '``` js title="a" mermaid\n',
      '```c4plantuml\n',
      '```lang-mermaid\n',
      '```mmd\n',
      '```geojson\n',
      '``` DOT\n',
      '> ```\n\n```\n',
      '```\n```\u00a0\n```\n',
      `\`\`\`\n\`\`\`${' '.repeat(201)}\n`,
      `${'- '.repeat(101)}\`\`\`\n\`\`\`\n`,
      `${'1'.repeat(199)}\`\`\`\n\`\`\`\n`,
    ]) {
      expect(rewrite(before + image), before).not.include('evil.example');
    }
    expect(rewrite(`\`\`\`\ncode\n\`\`\`\n${image}`)).not.include('evil.example');
  });

  it('hold nothing back but what may become one', () => {
    const filter = createLinkFilter(new Set([known]));
    const pieces = [
      'The month',
      'ly rate is h',
      'igh: ',
      'http',
      's://evil.example',
      '/key',
      ' and',
      ' [a]',
      '(x',
      ' y',
    ];
    expect(pieces.map(filter.add)).deep.equal([
      'The month',
      'ly rate is ',
      'high: ',
      '',
      '',
      '',
      '(link removed) and',
      ' [a',
      '',
      '] (x y',
    ]);
    expect(filter.end()).equal('');
    expect(filter.removedCount()).equal(1);
  });

  it('are found in texts as they can be said again', () => {
    expect(extractUrls(`See (${known}), www.bank.example. Mail mailto:a@b.example!`)).deep.equal([
      known,
      'www.bank.example',
      'mailto:a@b.example',
    ]);
    expect(removeLinks('Loans at [us](https://evil.example) https://evil.example/a now')).equal('Loans at [us]   now');
  });
});

describe('addresses in long runs', () => {
  const inPieces = (text: string, size: number) => text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];

  // What is looked at again from each sign on, or with each piece, does not end within the runner's time.
  const length = 1_000_000;

  for (const run of ['![', '](a', '](a "', ']:', '[1]:', 'www.', 'https://', '.', '`', '1234', '\n```\n']) {
    it(`cost what their length does, in a reply and in what it may name: ${JSON.stringify(run)}`, () => {
      const text = `https:// https://${run.repeat(length / run.length)}a`;
      expect(rewrite(text.slice(9)).length).at.least(1);
      expect(rewrite(text.slice(17)).length).at.least(1);
      expect(extractUrls(text).length).at.least(1);
    });
  }

  for (const [start, run] of [
    ['https://', 'a'],
    ['[a](b', 'c'],
    ['[a](b "', 'c'],
    ['', '1234'],
    ['', '- '],
    ['', '```'],
    ['', '![](b "'],
  ] as const) {
    it(`cost what their length does, in small pieces: ${JSON.stringify(start + run)}`, () => {
      expect(rewriteAll(inPieces(start + run.repeat(length / run.length), 4)).length).at.least(1);
    });
  }

  for (const run of ['3.14159265358979 ', '2026-11-22 ', '-', '`', 'https://', '[a](b', '[a](b "c', ' ', '> ']) {
    it(`are not held back for ever: ${JSON.stringify(run)}`, () => {
      const filter = createLinkFilter(new Set());
      let said = 0;
      let shown = 0;
      while (shown === 0 && said < 2_500) {
        shown += filter.add(run[said % run.length] ?? '').length;
        said += 1;
      }
      expect(shown).above(0);
    });
  }

  it('are gone as one where no reader would make a link of them', () => {
    const long = `https://evil.example/${'a'.repeat(3_000)}`;
    expect(rewrite(`See ${long}, [here](${long}) or [${long}](b).`)).equal(
      'See (link removed) [here] ((link removed) or [ (link removed)] (b).',
    );
    expect(extractUrls(long)).deep.equal([]);
  });

  it('are found in texts that join some without a space', () => {
    const joined = 'https://a.example/x;https://www.b.example/y,';
    expect(extractUrls(`${joined} c`)).deep.equal([
      'https://a.example/x;https://www.b.example/y',
      'https://www.b.example/y',
      'www.b.example/y',
    ]);
  });

  it('are the same however the text is cut', () => {
    const part = fc.oneof(
      fc.constantFrom('https://', 'a', known, '](', ')', ']', '"', ' ', '\n', '```', '> ', '[1', ']:', '.', '<', '😀'),
      fc
        .record({ sign: fc.constantFrom('a', '1', '.', '-', ' ', '`', ']', '~'), more: fc.nat({ max: 12 }) })
        .chain(({ sign, more }) => fc.constantFrom(190, 2_040, 2_290).map((length) => sign.repeat(length + more))),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.integer({ min: 1, max: 300 }), (parts, size) => {
        const text = parts.join('');
        const expected = rewrite(text);
        expect(rewriteAll(inPieces(text, size))).equal(expected);
        expect(rewriteAll(inPieces(text, 1))).equal(expected);
      }),
      { numRuns: propertyRuns(300) },
    );
  });
});

describe('addresses in any reply', () => {
  const part = fc.constantFrom(
    ...[
      'https://evil.example/',
      known,
      other,
      `](${known} "`,
      '")',
      'www.evil.example',
      'mailto:',
      'h',
      'http',
      's:',
      '//',
      '&#104;ttps://x.example',
    ],
    ...['![', '!', '[', ']', '](', '(', ')', ']:', ':', '<', '>', '](<', '<img src=', '<!--', '-->'],
    ...['"', "'", '\\', '&', '|', '*', '~~'],
    ...[
      '```',
      '~~~',
      '`',
      '$$',
      '    ',
      '- ',
      '> ',
      '1. ',
      '# ',
      '\n',
      '\n\n',
      '\r',
      '\t',
      '\u00a0',
      ' ',
      'a',
      '1',
      '[1]',
      '😀',
    ],
  );
  const parts = fc.array(part, { maxLength: 30 });

  it('are the same however the text is cut', () => {
    fc.assert(
      fc.property(parts, fc.array(fc.nat({ max: 20 })), (text, cuts) => {
        const whole = text.join('');
        const pieces: string[] = [];
        let rest = whole;
        for (const cut of cuts) {
          pieces.push(rest.slice(0, cut));
          rest = rest.slice(cut);
        }
        const expected = rewrite(whole);
        expect(rewrite(...pieces, rest)).equal(expected);
        expect(rewrite(...whole.split(''))).equal(expected);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it('are fetched by no reader of Markdown, and lead to known places only', () => {
    fc.assert(
      fc.property(parts, (text) => {
        const html = marked.parse(rewrite(text.join('')), { async: false, gfm: true });
        const shown = html.replaceAll(/<(?:pre|code)[\s\S]*?<\/(?:pre|code)>/g, '');
        expect(shown).not.match(/<img|<!--/);
        const links = Array.from(shown.matchAll(/href="([^"]*)"/g), ([, href = '']) => decodeURI(href));
        // Some readers take the signs that close a sentence along; they say nothing.
        const places = links.map((href) => href.replace(/(?:[^\w]|&#?\w+;)+$/, ''));
        const elsewhere = places.filter((href) => href !== known && href !== other);
        expect(elsewhere).deep.equal([]);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it('leave a text without any as it is', () => {
    const plain = fc.array(
      fc.oneof(
        fc.string().map((text) => text.replaceAll(/[!<:&\]`~$w/]/g, '')),
        fc.constantFrom('\n', ' '),
      ),
    );
    fc.assert(
      fc.property(plain, (text) => {
        expect(rewrite(...text)).equal(text.join(''));
      }),
    );
  });
});
