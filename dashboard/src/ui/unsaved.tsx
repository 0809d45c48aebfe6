import {
  createContext,
  lazy,
  type ReactNode,
  Suspense,
  use,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useState,
} from 'react'
import { useBlocker } from 'react-router'

// Dialogs are not part of the first page. Fetched with the first change of a draft, so that it is there when it is needed.
const loadQuestion = async () => ({ default: (await import('./discard_question.tsx')).DiscardQuestion })
const DiscardQuestion = lazy(loadQuestion)

type Guard = {
  /** The drafts that would be lost, by the id of their component. A set outside of React: it must be current at once. */
  drafts: Set<string>
  ask: (discard: () => void) => void
}
const UnsavedContext = createContext<Guard>({ drafts: new Set(), ask: (discard) => discard() })

/**
 * Asks before anything that would lose a draft: following a link, going back, closing a form, closing the tab. One for
 * the whole app, since a router has only one blocker.
 */
export function UnsavedGuard({ children }: { children: ReactNode }) {
  const [drafts] = useState(() => new Set<string>())
  const [asked, setAsked] = useState<{ discard: () => void }>()
  const blocker = useBlocker(
    // Filters and tabs are in the URL too, and lose nothing.
    ({ currentLocation: from, nextLocation: to }) => drafts.size > 0 && from.pathname !== to.pathname,
  )
  useEffect(() => {
    const onUnload = (event: BeforeUnloadEvent) => drafts.size > 0 && event.preventDefault()
    window.addEventListener('beforeunload', onUnload)
    return () => window.removeEventListener('beforeunload', onUnload)
  }, [drafts])
  const guard = useMemo(() => ({ drafts, ask: (discard: () => void) => setAsked({ discard }) }), [drafts])

  function answer(discards: boolean): void {
    setAsked(undefined)
    if (discards) asked?.discard()
    if (blocker.state !== 'blocked') return
    if (discards) {
      drafts.clear()
      blocker.proceed()
    } else blocker.reset()
  }
  return (
    <UnsavedContext value={guard}>
      {children}
      {(asked || blocker.state === 'blocked') && (
        <Suspense>
          <DiscardQuestion onAnswer={answer} />
        </Suspense>
      )}
    </UnsavedContext>
  )
}

/** Protects a draft while it differs from what is saved. */
export function useUnsaved(isDirty: boolean) {
  const { drafts, ask } = use(UnsavedContext)
  const id = useId()
  useEffect(() => {
    if (!isDirty) return
    drafts.add(id)
    loadQuestion().catch(() => {})
    return () => {
      drafts.delete(id)
    }
  }, [drafts, id, isDirty])
  return {
    /** To be called before leaving with what was saved: React has not drawn it yet. */
    settle: useCallback(() => drafts.delete(id), [drafts, id]),
    /** Asks first if this draft would be lost. */
    close: (onClose: () => void) => (drafts.has(id) ? ask(onClose) : onClose()),
  }
}

/** For what ends everything on the page, such as signing out. */
export function useDiscardAll() {
  const { drafts, ask } = use(UnsavedContext)
  return (then: () => void) => {
    if (drafts.size === 0) return then()
    ask(() => {
      drafts.clear()
      then()
    })
  }
}
