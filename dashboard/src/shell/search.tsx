import { lazy, Suspense, useEffect, useState } from 'react'
import type { Shapes } from '../api/client.ts'
import { Icon } from '../ui/icons.tsx'

const loadPalette = async () => ({ default: (await import('./palette.tsx')).Palette })
const Palette = lazy(loadPalette)

const isMac = /Mac|iPhone|iPad/.test(navigator.platform)

/** Whether keys typed now go into something. */
const isTyping = (): boolean => document.activeElement?.matches('input, textarea, select, [contenteditable]') ?? false

/** Opens with ⌘K, Ctrl K or `/` on every page, unless a dialog is open. */
export function Search({ caller }: { caller: Shapes['Caller'] }) {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    function onKey(event: KeyboardEvent): void {
      const isShortcut = event.key.toLowerCase() === 'k' && (event.metaKey || event.ctrlKey) && !event.altKey
      const isSlash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping()
      if ((!isShortcut && !isSlash) || document.querySelector('[role=dialog], [role=alertdialog]')) return
      event.preventDefault()
      setOpen(true)
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  return (
    <>
      <button
        type="button"
        className="search-button"
        aria-haspopup="dialog"
        onPointerEnter={() => {
          loadPalette().catch(() => {})
        }}
        onClick={() => setOpen(true)}
      >
        <Icon name="search" />
        <span>Search or jump to…</span>
        <small aria-hidden="true">
          <kbd>{isMac ? '⌘K' : 'Ctrl K'}</kbd>
        </small>
      </button>
      {isOpen && (
        <Suspense>
          <Palette caller={caller} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}
