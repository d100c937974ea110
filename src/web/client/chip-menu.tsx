import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../pages/icons.tsx';

/** Minimum distance between a menu and the window's edge, in pixels. */
const EDGE = 8;

/** A chip that opens a menu. The browser closes it on Escape or a click elsewhere. */
export function ChipMenu({
  id,
  label,
  isOn,
  remove,
  children,
}: {
  id: string;
  label: string;
  isOn: boolean;
  /** Removes the filter from the query; absent for a chip that always has a value. */
  remove?: () => void;
  /** Renders the content when the menu opens. */
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
    // The code of some menus loads later, and their rows with it.
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

/** Focuses the chosen row, or the first one, so that the menu gets the arrows. A field in the menu keeps the focus. */
function enter(menu: HTMLElement): void {
  if (menu.contains(document.activeElement)) return;
  const row =
    menu.querySelector<HTMLElement>('[aria-pressed=true]') ?? menu.querySelector('button');
  row?.focus();
}

/** Moves between rows; from a field above, to the first one. */
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
