import type { HTMLElement } from 'linkedom';

/** A page must hold this much text beside its navigation and banners, otherwise they are its content. */
const minRestLength = 20;
/** A banner is never longer; what is longer has only a name like one. */
const maxBannerLength = 3_000;
/** Share of links from which on a part that is named like a menu is one. */
const minLinkShare = 0.5;

const menuRoles = new Set(['navigation', 'menu', 'menubar']);
const menuName = /(?:^|[\s_-])(?:nav(?:bar|igation)?|menu|sidebar|breadcrumbs?)(?:$|[\s_-])/i;
const dialogRoles = new Set(['dialog', 'alertdialog']);
/** Ids and classes of cookie banners, among them those of common consent tools. */
const bannerName =
  /cookie[\w-]*(?:banner|bar|notice|consent|popup|modal|dialog|overlay|message|wall|law)|(?:banner|notice|consent|popup|modal|dialog|overlay)[\w-]*cookie|consent[_-]?(?:banner|bar|notice|popup|modal|dialog|overlay|manager|sdk|root)|gdpr|onetrust|cookiebot|usercentrics|didomi|qc-cmp|cmplz|iubenda-cs|osano-cm|tarteaucitron|truste/i;
const cookieWord = /cookie/i;

type Size = { text: number; linked: number };

/**
 * Removes menus and cookie banners from a page. A page that holds nothing else keeps them.
 */
export function removeNavigationAndBanners(body: HTMLElement): void {
  const sizes = new Map<HTMLElement, Size>();
  measure(body, false, sizes);
  const removed = new Set<HTMLElement>();
  for (const element of body.querySelectorAll('nav, dialog, aside, [role], [aria-modal], [id], [class]')) {
    const size = sizes.get(element);
    if (size !== undefined && (isMenu(element, size) || isBanner(element, size))) removed.add(element);
  }
  if (removed.size === 0 || restLength(body, removed) < minRestLength) return;
  for (const element of removed) element.remove();
}

/** Measures each element once; reading the text of each would take quadratic time in nested elements. */
function measure(element: HTMLElement, isInLink: boolean, sizes: Map<HTMLElement, Size>): Size {
  const size = { text: 0, linked: 0 };
  const isLink = isInLink || element.tagName === 'A' || element.tagName === 'BUTTON';
  for (const node of element.childNodes) {
    if (isElement(node)) {
      const inner = measure(node, isLink, sizes);
      size.text += inner.text;
      size.linked += inner.linked;
    } else if (node.nodeType === node.TEXT_NODE) {
      const length = lengthOf(node.textContent);
      size.text += length;
      size.linked += isLink ? length : 0;
    }
  }
  sizes.set(element, size);
  return size;
}

function isMenu(element: HTMLElement, { text, linked }: Size): boolean {
  if (element.tagName === 'NAV' || menuRoles.has(element.getAttribute('role') ?? '')) return true;
  if (element.tagName !== 'ASIDE' && !menuName.test(namesOf(element))) return false;
  return linked >= minLinkShare * text && !holdsMainPart(element);
}

function isBanner(element: HTMLElement, { text }: Size): boolean {
  if (text > maxBannerLength || holdsMainPart(element)) return false;
  if (bannerName.test(namesOf(element))) return true;
  const isDialog =
    element.tagName === 'DIALOG' ||
    dialogRoles.has(element.getAttribute('role') ?? '') ||
    element.getAttribute('aria-modal') === 'true';
  return isDialog && cookieWord.test(element.textContent ?? '');
}

/** Length of the text without what is removed, headings, links, buttons and the footer. */
function restLength(element: HTMLElement, removed: ReadonlySet<HTMLElement>): number {
  let length = 0;
  for (const node of element.childNodes) {
    if (!isElement(node)) length += node.nodeType === node.TEXT_NODE ? lengthOf(node.textContent) : 0;
    else if (!removed.has(node) && !/^(?:A|BUTTON|FOOTER|H[1-6])$/.test(node.tagName)) {
      length += restLength(node, removed);
    }
  }
  return length;
}

const holdsMainPart = (element: HTMLElement): boolean =>
  /^(?:MAIN|ARTICLE|BODY)$/.test(element.tagName) || element.querySelector('main, article') !== null;

const namesOf = (element: HTMLElement): string =>
  `${element.getAttribute('id') ?? ''} ${element.getAttribute('class') ?? ''}`;

const isElement = (node: { nodeType: number }): node is HTMLElement => node.nodeType === 1;

const lengthOf = (text: string | null): number => text?.replace(/\s+/g, '').length ?? 0;
