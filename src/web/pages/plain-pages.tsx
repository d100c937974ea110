import type { ComponentChildren } from 'preact';
import { useContext } from 'preact/hooks';
import { plainLine } from '../../core/terminal-safe.ts';
import type { Assets } from '../assets.ts';
import type { Session } from '../sessions.ts';
import { Conversation } from './conversation.tsx';
import { DashboardPage } from './dashboard-page.tsx';
import { Brand, Command, Moment } from './elements.tsx';
import { ExportPage } from './export-page.tsx';
import { FilesPage } from './files-page.tsx';
import { HealthPage } from './health-page.tsx';
import { ListPages, PageView } from './mail-page.tsx';
import { MessagePage, MessagePane, NoMessagePage } from './message-pane.tsx';
import { ChosenTheme, type Page, type PageParts, Parts, pageClasses, pageTitle } from './page.ts';
import { Chips, Problem, QueryBox } from './query-box.tsx';
import { HistoryBar } from './shell.tsx';

interface DocumentProps {
  readonly assets: Assets;
  readonly title: string;
  readonly scripts?: readonly string[];
  readonly styles: readonly string[];
  /** Styles that the script adds when it first shows a page that needs them. */
  readonly laterStyles?: string | undefined;
  readonly class: string;
  readonly children: ComponentChildren;
}

/** A document without inline styles or scripts, which the security headers forbid. */
function Document({ assets, title, scripts = [], styles, laterStyles, ...rest }: DocumentProps) {
  return (
    <html lang="en" data-theme={useContext(ChosenTheme)}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex, nofollow" />
        <title>{title}</title>
        <link rel="icon" href={assets.address('mark.svg')} type="image/svg+xml" />
        <link rel="apple-touch-icon" href={assets.address('icon-192.png')} />
        <link rel="manifest" href={assets.address('manifest.webmanifest')} />
        {['style.css', ...styles].map((name) => (
          <link key={name} rel="stylesheet" href={assets.address(name)} />
        ))}
        {laterStyles !== undefined && (
          <meta name="later-styles" content={assets.address(laterStyles)} />
        )}
        {/* Otherwise, the browser would request imported scripts only after the first script has loaded. */}
        {scripts.flatMap((name) =>
          assets.imports(name).map((href) => <link key={href} rel="modulepreload" href={href} />),
        )}
        {scripts.map((name) => (
          <script key={name} src={assets.address(name)} type="module" />
        ))}
      </head>
      <body class={rest.class}>{rest.children}</body>
    </html>
  );
}

interface PlainPageProps extends Pick<DocumentProps, 'assets' | 'title' | 'scripts' | 'children'> {
  readonly home?: boolean;
}

function PlainPage({ title, home = false, children, ...document }: PlainPageProps) {
  return (
    <Document {...document} title={`${title} · mailkeep`} styles={['plain.css']} class="plain">
      <main>
        <Brand home={home} />
        {children}
      </main>
      <footer class="about">
        Reads the archive on this machine, sends nothing, and changes nothing at the service.
      </footer>
    </Document>
  );
}

const FAILURES = {
  'not-found': [
    'Nothing here',
    <>
      This address leads nowhere. <a href="/mail">All mail</a>
    </>,
  ],
  failed: [
    'This page could not be made',
    'The server has noted why. Nothing in the archive changed.',
  ],
  'foreign-form': [
    'This form came from somewhere else',
    'Only pages of this server may send forms to it. Open the page again and repeat the step.',
  ],
  elsewhere: [
    'This archive cannot be reached now',
    'The node of the fleet that has it does not answer, or has to be asked later. Nothing in the archive changed.',
  ],
  limited: [
    'This sign-in is limited to some mailboxes',
    'This page is about all mailboxes. "mailkeep web --link" without --mailbox prints a link without a limit.',
  ],
  'stale-form': ['This page is out of date', 'Go back, reload the page and repeat the step.'],
} as const;

type Plain = Pick<DocumentProps, 'assets'>;
/** `token` proves that a form comes from one of this server's pages. */
type WithForm = Plain & { readonly token: string };

export function FailurePage({ assets, kind }: Plain & { kind: keyof typeof FAILURES }) {
  const [title, text] = FAILURES[kind];
  return (
    <PlainPage assets={assets} title={title} home>
      <h1>{title}</h1>
      <p>{text}</p>
    </PlainPage>
  );
}

export type SignInProblem = 'wrong-code' | 'stale-form' | null;

/** The sign-in page. With JavaScript, the code in a link is entered and submitted automatically. */
export function SignInPage({ assets, token, problem }: WithForm & { problem: SignInProblem }) {
  return (
    <PlainPage assets={assets} title="Sign in" scripts={['enter.js']}>
      <h1>Ask the machine for a way in</h1>
      <p>There is no password. Where the archive is kept, run</p>
      <Command>mailkeep web --link</Command>
      <p>and open the link that it prints. It works once, within ten minutes.</p>
      <form method="post" action="/enter" id="enter" class="code-form">
        <label for="code">Or type its last part here</label>
        <div class="row-of-two">
          <input
            id="code"
            name="code"
            required
            maxlength={40}
            autocomplete="one-time-code"
            autocapitalize="characters"
            spellcheck={false}
            placeholder="K7QM-2XWD-94HT"
            aria-invalid={problem === null ? undefined : 'true'}
            aria-describedby={problem === null ? undefined : 'problem'}
          />
          <button type="submit">Sign in</button>
        </div>
        <input type="hidden" name="token" value={token} />
        {problem !== null && (
          <p class="problem" id="problem" role="alert">
            {problem === 'wrong-code'
              ? 'This code is wrong, was used before, or is too old. Run the command again for a new one.'
              : 'This page was open for too long. Type the code again.'}
          </p>
        )}
      </form>
      <p class="small">This browser stays signed in for 30 days, or until you sign it out.</p>
    </PlainPage>
  );
}

interface LeavePageProps extends Plain {
  readonly to: string | null;
  /** Host name in letters beyond ASCII; empty if there are none. */
  readonly writtenAs: string;
}

export function LeavePage({ assets, to, writtenAs }: LeavePageProps) {
  if (to === null)
    return (
      <PlainPage assets={assets} title="A link in a message">
        <h1>This link is not opened</h1>
        <p>Only addresses of web pages and of mail are.</p>
      </PlainPage>
    );
  const { protocol, host, hostname, port, pathname, username, password } = new URL(to);
  const destination = protocol === 'mailto:' ? `the mail address ${plainLine(pathname)}` : host;
  const user = password === '' ? username : `${username}:${password}`;
  const before = `${protocol}//${user === '' ? '' : `${user}@`}`;
  return (
    <PlainPage assets={assets} title="A link in a message">
      <h1>This link leads away from the archive</h1>
      <p>
        It leads to <strong class="host">{destination}</strong>. Whoever wrote the message chose
        this address. Read it before you open it.
      </p>
      {user !== '' && (
        <p class="problem" role="alert">
          <bdi>{user}</bdi> is not where the link leads: what is before the @ is sent to{' '}
          {destination} as the name of a user.
        </p>
      )}
      {writtenAs !== '' && (
        <p class="problem" role="alert">
          The message writes <bdi>{plainLine(writtenAs)}</bdi>. Letters of other alphabets can look
          like those of a name you know; {hostname} is the name that is opened.
        </p>
      )}
      {port !== '' && (
        <p class="problem" role="alert">
          It leads to port {port}, which few web sites use.
        </p>
      )}
      <p class="address">
        <bdi>
          {hostname !== '' && to.startsWith(before + hostname) ? (
            <>
              {before}
              <strong>{hostname}</strong>
              {to.slice(before.length + hostname.length)}
            </>
          ) : (
            to
          )}
        </bdi>
      </p>
      <p>
        <a class="button" href={to} rel="noreferrer noopener nofollow">
          Open it
        </a>
      </p>
    </PlainPage>
  );
}

/** In this order, since most browsers also claim to be others. */
const BROWSERS: readonly (readonly [name: string, mark: RegExp])[] = [
  ['Edge', /\bEdg\/(\d{1,4})/],
  ['Opera', /\bOPR\/(\d{1,4})/],
  ['Firefox', /\bFirefox\/(\d{1,4})/],
  ['Chrome', /Chrome\/(\d{1,4})/],
  ['Safari', /\bVersion\/(\d{1,4})/],
];
const SYSTEMS: readonly (readonly [name: string, mark: RegExp])[] = [
  ['Android', /\bAndroid\b/],
  ['iPhone', /\biPhone\b/],
  ['iPad', /\biPad\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/],
];

/** Returns a name such as `Firefox 145 on Linux`, or the user agent if it is not recognised. */
function browserName(agent: string): string {
  const system = SYSTEMS.find(([, mark]) => mark.test(agent))?.[0];
  for (const [name, mark] of BROWSERS) {
    const version = mark.exec(agent)?.[1];
    if (version !== undefined)
      return `${name} ${version}${system === undefined ? '' : ` on ${system}`}`;
  }
  return agent === '' ? 'A browser without a name' : agent;
}

interface SignedInBrowser extends Pick<Session, 'createdAt' | 'usedAt' | 'agent'> {
  readonly id: string;
  readonly isThis: boolean;
  /** Addresses of the mailboxes that the session is limited to; null for all mailboxes. */
  readonly mailboxes: readonly string[] | null;
}

export function SettingsPage({
  assets,
  token,
  browsers,
}: WithForm & { browsers: readonly SignedInBrowser[] }) {
  return (
    <PlainPage assets={assets} title="Settings" home scripts={['you.js']}>
      <h1>Settings</h1>
      <Preferences />
      <h2>Signed-in browsers</h2>
      <ul class="browsers">
        {browsers.map(({ id, isThis, agent, createdAt, usedAt, mailboxes }) => (
          <li key={id}>
            <div>
              <strong title={agent}>
                <bdi>{browserName(agent)}</bdi>
              </strong>
              {isThis && <span class="tag">this one</span>}
              {mailboxes !== null && <span class="tag">only {mailboxes.join(', ')}</span>}
              <p class="small">
                Signed in <Moment ms={createdAt} />, last used <Moment ms={usedAt} />
              </p>
            </div>
            <form method="post" action={isThis ? '/sign-out' : '/you/end'}>
              <input type="hidden" name="token" value={token} />
              <input type="hidden" name="id" value={id} />
              <button type="submit" class="quiet">
                {isThis ? 'Sign out' : 'End'}
              </button>
            </form>
          </li>
        ))}
      </ul>
      <p>Another browser signs in by a link of its own:</p>
      <Command>mailkeep web --link</Command>
    </PlainPage>
  );
}

const PREFERENCES = [
  [
    'theme',
    'Theme',
    [
      ['system', 'As the system'],
      ['light', 'Light'],
      ['dark', 'Dark'],
    ],
  ],
  [
    'density',
    'Rows of lists',
    [
      ['auto', 'As the query needs'],
      ['compact', 'One line'],
      ['standard', 'Two lines'],
      ['roomy', 'Three lines'],
    ],
  ],
] as const;

/** Form for this browser's preferences. It depends on a script, which also reveals it. */
function Preferences() {
  return (
    <form id="preferences" class="preferences" hidden>
      {PREFERENCES.map(([name, label, options]) => (
        <fieldset key={name}>
          <legend>{label}</legend>
          {options.map(([value, text]) => (
            <label key={value}>
              <input type="radio" name={name} value={value} />
              {text}
            </label>
          ))}
        </fieldset>
      ))}
      <fieldset>
        <legend>Keyboard</legend>
        <label>
          <input type="checkbox" name="letters" />
          Letters are keys, outside of fields
        </label>
        <p class="small">
          <a href="/mail#keys">The map of the keys</a> opens with ? as well.
        </p>
      </fieldset>
      <p class="small">Kept in this browser only.</p>
    </form>
  );
}

const nothing = () => null;

export function ArchiveDocument({ assets, page }: Plain & { page: Page }) {
  const styles = stylesOf(page);
  const parts: PageParts = {
    QueryBox,
    Chips,
    Problem,
    AfterBar: () => <WaitingLink assets={assets} />,
    List: ListPages,
    Conversation,
    Copy: nothing,
    PrintButton: nothing,
    TimeBand: HistoryBar,
    isUnfolded: () => null,
    pages: {
      message: MessagePage,
      'no-message': NoMessagePage,
      files: FilesPage,
      health: HealthPage,
      dashboard: DashboardPage,
      export: ExportPage,
      still: nothing,
    },
    Message: MessagePane,
  };
  return (
    <Document
      assets={assets}
      title={`${pageTitle(page)} · mailkeep`}
      scripts={['app.js']}
      styles={styles}
      laterStyles={styles.includes(LATER) ? undefined : LATER}
      class={pageClasses(page)}
    >
      <div id="root">
        <Parts.Provider value={parts}>
          <PageView page={page} />
        </Parts.Provider>
      </div>
      {/* Data for the script. The escape keeps it from closing the element. */}
      <script
        type="application/json"
        id="page"
        dangerouslySetInnerHTML={{
          __html: JSON.stringify(takenOver(page)).replaceAll('<', '\\u003c'),
        }}
      />
    </Document>
  );
}

/**
 * Blocks the parser until its styles arrive, which styles in the head do not do. The browser therefore paints the bar
 * as soon as the head's styles have loaded, and never lays out the rest without styles, even if an event reaches the
 * window first.
 */
function WaitingLink({ assets }: Plain) {
  return <link rel="stylesheet" href={assets.address('without-script.css')} />;
}

const LATER = 'later.css';

function stylesOf(page: Page): readonly string[] {
  switch (page.kind) {
    case 'health':
    case 'dashboard':
    case 'export':
      return ['numbers.css'];
    case 'mail':
      return page.message === null ? [] : [LATER];
    default:
      return [LATER];
  }
}

/** Returns the data for the script: the page, or only its frame if the script keeps the server's content. */
function takenOver(page: Page): Page {
  const { frame, kind } = page;
  if (kind !== 'health' && kind !== 'dashboard' && kind !== 'export') return page;
  return { frame, kind: 'still', of: kind, title: pageTitle(page) };
}
