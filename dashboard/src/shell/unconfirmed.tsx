import { useMutation, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, type Shapes } from '../api/client.ts'
import { useMayChange } from '../api/may_change.ts'
import { queries, useRefresh } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { ProblemNote } from '../ui/problem.tsx'

/** Change sets that wait for confirmation, on every page: checking a change means opening the pages that it affects. */
export function Unconfirmed() {
  const found = useQuery(queries.unconfirmed()).data?.change_sets ?? []
  return found.map((each) => <ToConfirm key={each.id} changeSet={each} />)
}

function ToConfirm({ changeSet }: { changeSet: Shapes['ChangeSetSummary'] }) {
  const { id, description, confirm_by, revert_failure } = changeSet
  const mayChange = useMayChange()
  const refresh = useRefresh()
  const confirming = useMutation({
    mutationFn: () => api.http.POST('/change_sets/{id}/confirm', { params: { path: { id } }, body: {} }),
    onSettled: () => refresh('/change_sets'),
  })
  const name = description ?? id
  return (
    <section aria-label="Change set to confirm" className={`note ${revert_failure ? 'refused' : 'warned'}`}>
      <Icon name={revert_failure ? 'refused' : 'clock'} />
      <div>
        {revert_failure ? (
          <>
            <p className="strong">“{name}” was not confirmed in time, and could not be undone</p>
            <p>{revert_failure}</p>
          </>
        ) : (
          <>
            <p className="strong">“{name}” is applied for a limited time</p>
            <p>
              Check that everything works. It is undone <Countdown until={confirm_by ?? ''} /> unless someone confirms
              it.
            </p>
          </>
        )}
        {mayChange && (
          <div className="actions start">
            <Button kind="primary" isPending={confirming.isPending} onPress={() => confirming.mutate()}>
              {revert_failure ? 'Keep the changes' : 'Confirm'}
            </Button>
          </div>
        )}
        <p className="fine mono">{id}</p>
        {confirming.error && <ProblemNote error={confirming.error} />}
      </div>
    </section>
  )
}

function Countdown({ until }: { until: string }) {
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 1_000)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.ceil((Date.parse(until) - Date.now()) / 1_000)
  if (!(seconds > 0)) return <span>now</span>
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60]
  const two = (number: number) => String(number).padStart(2, '0')
  return (
    <time role="timer" dateTime={until}>
      in {hours > 0 && `${hours}:`}
      {hours > 0 ? two(minutes) : minutes}:{two(seconds % 60)}
    </time>
  )
}
