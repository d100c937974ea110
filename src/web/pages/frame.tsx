import type { ComponentChildren } from 'preact';
import { useContext } from 'preact/hooks';
import type { Assets } from '../assets.ts';
import { ChosenTheme } from './theme.ts';

interface DocumentProps {
  readonly assets: Assets;
  readonly title: string;
  /** Scripts of the page from the build; none without JavaScript. */
  readonly scripts?: readonly string[];
  readonly styles?: readonly string[];
  /** Styles that the script adds before it shows a page that needs them. */
  readonly laterStyles?: string | undefined;
  readonly class?: string;
  readonly children: ComponentChildren;
}

/** The document of every page, without inline styles or scripts. */
export function Document({
  assets,
  title,
  scripts = [],
  styles = [],
  laterStyles,
  ...rest
}: DocumentProps) {
  return (
    <html lang="en" data-theme={useContext(ChosenTheme)}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex, nofollow" />
        <title>{title}</title>
        <link rel="icon" href={assets.address('mark.svg')} type="image/svg+xml" />
        {['style.css', ...styles].map((name) => (
          <link key={name} rel="stylesheet" href={assets.address(name)} />
        ))}
        {laterStyles !== undefined && (
          <meta name="later-styles" content={assets.address(laterStyles)} />
        )}
        {/* All at once: otherwise, the browser requests them only after the first script has loaded. */}
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

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 22 22" aria-hidden="true">
      <path d="M3 9.2V4.4h3.2v2h3.2v-2h3.2v2h3.2v-2H19v4.8l-8 5z" />
      <path d="m3 13.4 8 5 8-5" />
    </svg>
  );
}

/** The program's name and mark, linked to the mail if there is any. */
export function Brand({ home }: { home: boolean }) {
  const inner = (
    <>
      <Mark />
      <span>mailkeep</span>
    </>
  );
  return home ? (
    <a class="brand" href="/mail" aria-label="mailkeep: all mail">
      {inner}
    </a>
  ) : (
    <span class="brand">{inner}</span>
  );
}

export function PlainPage({
  assets,
  title,
  home = false,
  scripts = [],
  children,
}: Omit<DocumentProps, 'class'> & { home?: boolean }) {
  return (
    <Document
      assets={assets}
      title={`${title} · mailkeep`}
      scripts={scripts}
      styles={['plain.css']}
      class="plain"
    >
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

export function Command({ children }: { children: string }) {
  return (
    <p class="command">
      <span aria-hidden="true">$ </span>
      <code>{children}</code>
    </p>
  );
}
