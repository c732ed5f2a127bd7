function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem; }
label { display: block; margin-bottom: 1rem; }
input { display: block; width: 20rem; padding: 0.5rem; font: inherit; box-sizing: border-box; }
button { padding: 0.5rem 1.5rem; font: inherit; }
form { display: inline-block; margin-right: 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #eee; padding: 1rem; }
</style>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
${body}
</body>
</html>
`;
}

export function loginPage(uid: string, refusal: string | null): string {
  return page(
    'Sign in',
    `${refusal === null ? '' : `<p role="alert">${escapeHtml(refusal)}</p>`}
<form method="post" action="/interaction/${uid}/login">
<label>Email <input name="login" type="email" autocomplete="username" required autofocus></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
</form>
${cancelForm(uid)}`,
  );
}

export function consentPage(uid: string, { client, scopes }: { client: string; scopes: readonly string[] }): string {
  return page(
    'Allow access',
    `<p><strong>${escapeHtml(client)}</strong> asks for: ${escapeHtml(scopes.join(', '))}.</p>
<form method="post" action="/interaction/${uid}/consent"><button>Allow</button></form>
${cancelForm(uid)}`,
  );
}

function cancelForm(uid: string): string {
  return `<form method="post" action="/interaction/${uid}/cancel"><button>Cancel</button></form>`;
}

/** The landing page of a sign-in without a frontend. It shows the last request, which a frontend would make. */
export function signedInPage(apiUrl: string, { code, state }: { code: string; state: string }): string {
  const callback = `${apiUrl}/auth/sso/callback?${new URLSearchParams({ code, state })}`;
  return page(
    'Signed in at the provider',
    `<p>A frontend would now make this request, once and within ten minutes. Its answer has the tokens:</p>
<pre>curl '${escapeHtml(callback)}'</pre>`,
  );
}

export function problemPage(problem: string, description: string): string {
  return page('This did not work', `<p>${escapeHtml(description)}</p><p><code>${escapeHtml(problem)}</code></p>`);
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
