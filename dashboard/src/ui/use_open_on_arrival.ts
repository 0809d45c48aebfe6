import { useEffect } from 'react'
import { useLocation } from 'react-router'

/** Opens the dialog that the search asked for: it navigates with `state: { open }`. */
export function useOpenOnArrival(open: (what: string) => void): void {
  const { key, state } = useLocation()
  // biome-ignore lint/correctness/useExhaustiveDependencies: once per navigation, not once per render.
  useEffect(() => {
    if (typeof state?.open !== 'string') return
    open(state.open)
    // Not again when the page is reloaded.
    window.history.replaceState({ ...window.history.state, usr: null }, '')
  }, [key])
}
