import { childAt, childrenNamed, elementsOf, textOf, type XmlElement } from './xml.ts';

/** A Word equation in the notation of LaTeX; signs stay the characters that they are. */
export function equation(element: XmlElement): string {
  return parts(element).replace(/\s+/g, ' ').trim();
}

function parts(element: XmlElement | undefined): string {
  return elementsOf(element).map(part).join('');
}

const group = (element: XmlElement, name: string) => `{${parts(childAt(element, name))}}`;
const property = (element: XmlElement, name: string) =>
  childAt(element, `${element.name}Pr`, name)?.attributes['m:val'];

const writers: Record<string, (element: XmlElement) => string> = {
  // Nobody sees where a function is applied, nor what is multiplied.
  'm:t': (element) => textOf(element).replace(/[\u2061-\u2064]/g, ' '),
  'm:f': (element) => `\\frac${group(element, 'm:num')}${group(element, 'm:den')}`,
  'm:sSup': (element) => `${parts(childAt(element, 'm:e'))}^${group(element, 'm:sup')}`,
  'm:sSub': (element) => `${parts(childAt(element, 'm:e'))}_${group(element, 'm:sub')}`,
  'm:sSubSup': (element) => `${parts(childAt(element, 'm:e'))}_${group(element, 'm:sub')}^${group(element, 'm:sup')}`,
  'm:rad': (element) => {
    const degree = parts(childAt(element, 'm:deg'));
    return `\\sqrt${degree && `[${degree}]`}${group(element, 'm:e')}`;
  },
  'm:nary': (element) => {
    const [from, to] = [parts(childAt(element, 'm:sub')), parts(childAt(element, 'm:sup'))];
    const limits = (from && `_{${from}}`) + (to && `^{${to}}`);
    return `${property(element, 'm:chr') ?? '∫'}${limits}${group(element, 'm:e')}`;
  },
  'm:d': (element) => {
    const inner = childrenNamed(element, 'm:e').map(parts);
    const [begin = '(', end = ')'] = [property(element, 'm:begChr'), property(element, 'm:endChr')];
    return begin + inner.join(property(element, 'm:sepChr') ?? '|') + end;
  },
  'm:m': (element) => {
    const rows = childrenNamed(element, 'm:mr').map((row) => childrenNamed(row, 'm:e').map(parts).join(' & '));
    return `\\begin{matrix}${rows.join(' \\\\ ')}\\end{matrix}`;
  },
  'm:eqArr': (element) => childrenNamed(element, 'm:e').map(parts).join(' \\\\ '),
  'm:func': (element) => `${parts(childAt(element, 'm:fName'))} ${group(element, 'm:e')}`,
  'm:limLow': (element) => `${parts(childAt(element, 'm:e'))}_${group(element, 'm:lim')}`,
  'm:limUpp': (element) => `${parts(childAt(element, 'm:e'))}^${group(element, 'm:lim')}`,
};

function part(element: XmlElement): string {
  return writers[element.name]?.(element) ?? parts(element);
}
