import { useCallback } from 'react'
import { useSearchParams } from 'react-router'

/** A filter, a tab or a search that a link can carry. The default is not in the URL. */
export function useUrlState<Value extends string>(name: string, fallback: Value) {
  const [parameters, setParameters] = useSearchParams()
  const value = (parameters.get(name) as Value | null) ?? fallback
  const set = useCallback(
    (next: Value) =>
      setParameters(
        (before) => {
          if (next === fallback) before.delete(name)
          else before.set(name, next)
          return before
        },
        { replace: true, preventScrollReset: true },
      ),
    [setParameters, name, fallback],
  )
  return [value, set] as const
}
