import { lazy, Suspense, useEffect, useState } from 'react'
import type { Shapes } from '../api/client.ts'
import { Icon } from '../ui/icons.tsx'

const loadPalette = async () => ({ default: (await import('./palette.tsx')).Palette })
const Palette = lazy(loadPalette)

const isMac = /Mac|iPhone|iPad/.test(navigator.platform)

/** Whether keystrokes go into an input. */
const isTyping = (): boolean => document.activeElement?.matches('input, textarea, select, [contenteditable]') ?? false

/** Opens with ⌘K, Ctrl K or `/` on every page, unless a dialog is open. */
export function Search({ caller }: { caller: Shapes['Caller'] }) {
  const [isOpen, setOpen] = useState(false)
  const [typed, setTyped] = useState('')
  const close = () => {
    setOpen(false)
    setTyped('')
  }
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
        <Suspense fallback={<TypedEarly text={typed} onText={setTyped} onClose={close} />}>
          <Palette caller={caller} typed={typed} onClose={close} />
        </Suspense>
      )}
    </>
  )
}

type EarlyProps = { text: string; onText: (text: string) => void; onClose: () => void }

/** Captures keystrokes while the search is loading. */
const TypedEarly = ({ text, onText, onClose }: EarlyProps) => (
  <div className="overlay top">
    <div className="modal palette palette-dialog">
      <div className="palette-field">
        <Icon name="search" />
        <input
          aria-label="Search or jump to"
          // biome-ignore lint/a11y/noAutofocus: it was opened to type into it.
          autoFocus
          value={text}
          onChange={({ target }) => onText(target.value)}
          onKeyDown={({ key }) => key === 'Escape' && onClose()}
        />
      </div>
    </div>
  </div>
)
