import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../pages/icons.tsx';

/** Pixels between a menu and the edge of the window. */
const EDGE = 8;

/** A chip that opens a menu; the browser closes it again, by Escape or a click elsewhere. */
export function ChipMenu({
  id,
  label,
  isOn,
  remove,
  children,
}: {
  /** Of the menu, in the page. */
  id: string;
  label: string;
  isOn: boolean;
  /** Takes the filter out of the query; absent for a chip that always says something. */
  remove?: () => void;
  /** Makes the content when the menu opens. */
  children: (close: () => void) => ComponentChildren;
}) {
  const chip = useRef<HTMLSpanElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const open = menu.current;
    open?.addEventListener('keydown', moveByArrows);
    return () => open?.removeEventListener('keydown', moveByArrows);
  }, []);
  useEffect(() => {
    const open = menu.current;
    if (!isOpen || open === null) return;
    enter(open);
    // The code of some menus comes later, and their rows with it.
    const later = new MutationObserver(() => enter(open));
    later.observe(open, { childList: true, subtree: true });
    return () => later.disconnect();
  }, [isOpen]);
  const place = (): void => {
    if (chip.current === null || menu.current === null) return;
    const { left, bottom } = chip.current.getBoundingClientRect();
    const most = document.documentElement.clientWidth - menu.current.offsetWidth - EDGE;
    menu.current.style.setProperty('--x', `${Math.max(EDGE, Math.min(left, most))}px`);
    menu.current.style.setProperty('--y', `${bottom + 4}px`);
  };
  return (
    <span ref={chip} class={isOn ? 'chip on' : 'chip'}>
      <button type="button" class="says" popovertarget={id} aria-expanded={isOpen}>
        <bdi>{label}</bdi>
        {(!isOn || remove === undefined) && <Icon name="down" />}
      </button>
      {isOn && remove !== undefined && (
        <button type="button" class="off" onClick={remove}>
          <Icon name="cross" />
          <span class="vh">Remove: {label}</span>
        </button>
      )}
      <div
        ref={menu}
        id={id}
        popover="auto"
        class="menu"
        onToggle={(event) => {
          setOpen(event.newState === 'open');
          if (event.newState === 'open') requestAnimationFrame(place);
        }}
      >
        {isOpen && children(() => menu.current?.hidePopover())}
      </div>
    </span>
  );
}

/** Focuses the row that is chosen, or the first one, unless a field within has the focus: arrows belong to the menu now. */
function enter(menu: HTMLElement): void {
  if (menu.contains(document.activeElement)) return;
  const row =
    menu.querySelector<HTMLElement>('[aria-pressed=true]') ?? menu.querySelector('button');
  row?.focus();
}

/** Goes from row to row; the first one is reached from a field above the rows. */
function moveByArrows(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !(event.currentTarget instanceof HTMLElement)) return;
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>('button, input')];
  const at = rows.findIndex((row) => row.matches(':focus'));
  rows[at + step]?.focus();
  event.preventDefault();
}

export function Choice({
  isOn = false,
  choose,
  count = '',
  children,
}: {
  isOn?: boolean;
  choose: () => void;
  count?: string;
  children: ComponentChildren;
}) {
  return (
    <button type="button" class="choice" aria-pressed={isOn} onClick={choose}>
      <span>{children}</span>
      <span class="n">{count}</span>
    </button>
  );
}
