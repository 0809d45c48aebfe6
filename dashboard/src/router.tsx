import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from 'react'

/** Where the dashboard is served; the router sees what is behind it: `/`, `/keys`, `/policies/ipp_…`. */
const base = '/dashboard'
const listeners = new Set<() => void>()

function tell(): void {
  for (const listener of listeners) listener()
}
window.addEventListener('popstate', tell)

export function go(path: string): void {
  history.pushState(null, '', base + path)
  window.scrollTo(0, 0)
  tell()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const usePath = (): string =>
  useSyncExternalStore(subscribe, () => location.pathname.slice(base.length).replace(/\/$/, '') || '/')

export const useQueryString = (): URLSearchParams =>
  new URLSearchParams(useSyncExternalStore(subscribe, () => location.search))

type Props = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string }

/** A real link, so that a new tab, copying its address and a screen reader all work. */
export function Link({ to, onClick, ...rest }: Props) {
  function follow(event: MouseEvent<HTMLAnchorElement>): void {
    onClick?.(event)
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
    event.preventDefault()
    go(to)
  }
  return <a href={base + to} onClick={follow} {...rest} />
}
