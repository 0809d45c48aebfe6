import { useState } from 'react'
import type { Shapes } from '../../api/client.ts'

type Quotas = Shapes['Caller']['quotas']

export const isStepDone = {
  policy: ({ ip_policies }: Quotas) => ip_policies.used > 0,
  restriction: ({ ip_restrictions }: Quotas) => ip_restrictions.used > 0,
  edge: ({ tcp_edges, https_edges }: Quotas) => tcp_edges.used + https_edges.used > 0,
}

/** Whether to show the first steps: until all are done, or the person hides them in this browser. */
export function useFirstSteps(caller: Shapes['Caller'] | undefined) {
  const key = `gatehouse-get-started-${caller?.account_id}`
  const [, redraw] = useState(0)
  const isHidden = localStorage.getItem(key) !== null
  const isOpen =
    caller !== undefined &&
    caller.role !== 'viewer' &&
    !isHidden &&
    !Object.values(isStepDone).every((isDone) => isDone(caller.quotas))
  function hide(): void {
    localStorage.setItem(key, 'hidden')
    redraw((count) => count + 1)
  }
  return { isOpen, hide }
}
