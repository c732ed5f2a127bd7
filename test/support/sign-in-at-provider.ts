/**
 * Goes through the provider's forms as a browser would, with a cookie jar of its own.
 * @param options.consents false: cancels at the consent
 * @returns the address to which the provider sends the browser back; it is not asked for
 */
export async function signInAtProvider(
  authorizationUrl: string,
  account: { login: string; password: string },
  options: { consents?: boolean } = {},
): Promise<URL> {
  const { consents = true } = options;
  const { origin } = new URL(authorizationUrl);
  const browser = createBrowser();
  let at = await browser.open(authorizationUrl, origin);
  while (at.page !== null) {
    const { page } = at;
    const step = ['login', 'consent'].find((name) => page.includes(`/${name}"`));
    if (at.status !== 200 || step === undefined) throw new Error(`the provider shows ${at.status} ${page}`);
    const action = formAction(page, step === 'consent' && !consents ? 'cancel' : step);
    const form = step === 'login' ? { login: account.login, password: account.password } : {};
    at = await browser.open(new URL(action, at.url).href, origin, new URLSearchParams(form));
  }
  return at.url;
}

function formAction(page: string, step: string): string {
  const action = new RegExp(`<form method="post" action="([^"]+/${step})"`).exec(page)?.[1];
  if (action === undefined) throw new Error(`the provider's page has no form to ${step}: ${page}`);
  return action;
}

/** Where a browser is: at a page, or on its way to another site. */
type Place = { url: URL; status: number; page: string | null };

function createBrowser() {
  const cookies = new Map<string, string>();

  function keepCookies(headers: Headers): void {
    for (const line of headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
  }

  return {
    /** Follows redirects as long as they stay at the site. */
    async open(address: string, origin: string, form?: URLSearchParams): Promise<Place> {
      const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
      const response = await fetch(address, {
        headers,
        redirect: 'manual',
        ...(form && { method: 'POST', body: form }),
      });
      keepCookies(response.headers);
      const text = await response.text();
      const location = response.headers.get('location');
      if (location === null) return { url: new URL(address), status: response.status, page: text };
      const next = new URL(location, address);
      return next.origin === origin ? this.open(next.href, origin) : { url: next, status: response.status, page: null };
    },
  };
}
