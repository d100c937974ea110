import type { VNode } from 'preact';
import { count } from '../../wording/amounts.ts';
import { pageAddress } from '../reading/query-text.ts';
import { Icon, type IconName } from './icons.tsx';
import type { Here } from './page.ts';

type Target = readonly [here: Here, path: string, label: string, icon: IconName];

const TARGETS: readonly Target[] = [
  ['mail', '/mail', 'Mail', 'mail'],
  ['files', '/files', 'Attachments', 'clip'],
  ['dashboard', '/dashboard', 'Dashboard', 'chart'],
  ['health', '/health', 'Health', 'pulse'],
];

/** The four ways on a narrow window, in reach of a thumb. */
export function BottomNav({
  here,
  query,
  matters,
}: {
  readonly here: Here;
  readonly query: string;
  readonly matters: number;
}): VNode {
  const current = here === 'message' ? 'mail' : here;
  return (
    <nav class="bottom" aria-label="Main">
      {TARGETS.map(([name, path, label, icon]) => (
        <a
          key={name}
          href={name === 'mail' || name === 'files' ? pageAddress(path, { q: query }) : path}
          aria-current={current === name ? 'page' : undefined}
        >
          <span class="icon">
            <Icon name={icon} />
            {name === 'health' && matters > 0 && <span class="badge" aria-hidden="true" />}
          </span>
          {label}
          {name === 'health' && matters > 0 && (
            <span class="vh">{`${count(matters)} need attention`}</span>
          )}
        </a>
      ))}
    </nav>
  );
}
