import { expect } from 'chai';
import { parseHtml } from '#src/adapters/converter/formats/html.ts';

const read = async (text: string) => parseHtml({ bytes: Buffer.from(text), fileName: 'a.xml' });

describe('parseHtml for feeds', () => {
  it('reads RSS entries with dates and authors', async () => {
    const { body, title } = await read(
      `<?xml version="1.0"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/">
      <channel><title>News</title><description>Of the office</description>
      <item><title>Moved &amp; open</title><pubDate>Fri, 02 Feb 2024 09:30:00 +0000</pubDate><dc:creator>Ann</dc:creator>
      <description>short</description><content:encoded><![CDATA[<p>We have <b>moved</b>.</p><ul><li>new door</li></ul>]]></content:encoded></item>
      <item><title>Second</title></item></channel></rss>`,
    );
    expect(title).to.equal('News');
    expect(body).to.equal(
      '# News\n\nOf the office\n\n## Moved & open\n\n2024-02-02, Ann\n\nWe have moved.\n\n- new door\n\n## Second',
    );
  });

  it('reads Atom entries with dates and authors', async () => {
    const { body } = await read(
      `<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><title>One</title><updated>2024-02-02T09:30:00Z</updated>
      <author><name>Bo</name></author><summary>words</summary></entry></feed>`,
    );
    expect(body).to.equal('# News\n\n## One\n\n2024-02-02, Bo\n\nwords');
  });

  it('keeps a malformed feed as a code block', async () => {
    expect((await read('<rss version="2.0"><channel><title>a&nbsp;b</title>')).body).to.match(
      /^```xml\n<rss.*a&nbsp;b/,
    );
  });
});
