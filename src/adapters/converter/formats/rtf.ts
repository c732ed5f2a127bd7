import { appError } from '#src/errors.ts';
import { distinct, renderBlocks } from '../office/blocks.ts';
import { headingLevel } from '../office/heading-name.ts';
import { type DocumentParser, statedTitle } from '../parsed-document.ts';
import { createGroups, levelOfOutline } from './rtf-groups.ts';
import { decodeBytes, readTokens } from './rtf-tokens.ts';
import { characters, createReadWord, type RtfDocument } from './rtf-words.ts';

/** Rich text: headers, the text with its notes and comments, footers; of pictures their alternative texts. */
export const parseRtf: DocumentParser = ({ bytes }) => {
  const headingLevels = new Map<number, number>();
  const groups = createGroups(headingLevels);
  const document: RtfDocument = {
    codePage: 1252,
    fontCodePages: new Map(),
    styleOutline: null,
    fallbackLeft: 0,
    headers: [],
    footers: [],
  };
  const readWord = createReadWord(groups, document);
  let pending = '';

  /** Characters of several bytes are told by several tokens. */
  function flush(): void {
    if (pending)
      groups.append(decodeBytes(pending, document.fontCodePages.get(groups.state().font) ?? document.codePage));
    pending = '';
  }

  function defineStyle(): void {
    const name = groups.collected.styles.replace(/;\s*$/, '').trim();
    const level = headingLevel(name) ?? levelOfOutline(document.styleOutline);
    if (level) headingLevels.set(groups.state().style, level);
    groups.collected.styles = '';
    document.styleOutline = null;
  }

  for (const token of readTokens(bytes.toString('latin1'))) {
    if (token.kind === 'bytes') {
      const skipped = Math.min(document.fallbackLeft, token.bytes.length);
      document.fallbackLeft -= skipped;
      pending += token.bytes.slice(skipped);
      continue;
    }
    flush();
    if (token.kind === 'word' && document.fallbackLeft > 0 && Object.hasOwn(characters, token.name)) {
      document.fallbackLeft -= 1;
      continue;
    }
    document.fallbackLeft = 0;
    const isStyle = groups.state().target === 'styles';
    if (token.kind === 'open') {
      groups.open();
      if (isStyle) groups.state().style = 0;
    } else if (token.kind === 'word') {
      if (groups.state().target !== 'unread') readWord(token.name, token.value);
    } else {
      if (isStyle) defineStyle();
      groups.close();
      if (groups.depth() === 0) break;
    }
  }
  if (groups.depth() > 0) throw appError('corrupt_document', { detail: 'The file has no end: it was cut off.' });
  const { story } = groups.state();
  story.end(groups.paragraphState());
  const blocks = [...distinct(document.headers), ...story.blocks, ...distinct(document.footers)];
  return { body: renderBlocks(blocks), title: statedTitle(groups.collected.title) };
};
