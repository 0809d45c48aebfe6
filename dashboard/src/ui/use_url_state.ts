import { useCallback } from 'react'
import { useSearchParams } from 'react-router'

/** Sets parameters of the URL, and removes those that are undefined. */
export function useSetUrl() {
  const setParameters = useSearchParams()[1]
  return useCallback(
    (values: Readonly<Record<string, string | undefined>>) =>
      setParameters(
        () => {
          // As the address bar has them. Those rendered last may be behind: of two filters chosen quickly, only the second
          // would stay.
          const now = new URLSearchParams(window.location.search)
          for (const [name, value] of Object.entries(values)) {
            if (value === undefined) now.delete(name)
            else now.set(name, value)
          }
          return now
        },
        { replace: true, preventScrollReset: true },
      ),
    [setParameters],
  )
}

/** A filter, a tab or a search that a link can carry. The default is not in the URL. */
export function useUrlState<Value extends string>(name: string, fallback: Value) {
  const [parameters] = useSearchParams()
  const setUrl = useSetUrl()
  const value = (parameters.get(name) as Value | null) ?? fallback
  const set = useCallback(
    (next: Value) => setUrl({ [name]: next === fallback ? undefined : next }),
    [setUrl, name, fallback],
  )
  return [value, set] as const
}
