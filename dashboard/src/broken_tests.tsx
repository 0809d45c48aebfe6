import type { ReactNode } from 'react'
import { Link } from 'react-router'
import { $api, ignoreAccessTestsOnce } from './api/client.ts'
import { Problem } from './api/problem.ts'
import { Button } from './ui/button.tsx'
import { Icon } from './ui/icons.tsx'

/** Explains a change that access tests refused, and lets admins make it anyway. Undefined for other problems. */
export const brokenTests = (error: unknown, retry: () => void, isPending: boolean): ReactNode =>
  error instanceof Problem && error.code === 'ERR_ACCESS_TEST_FAILED' ? (
    <BrokenTests problem={error} retry={retry} isPending={isPending} />
  ) : undefined

type Props = { problem: Problem; retry: () => void; isPending: boolean }

function BrokenTests({ problem, retry, isPending }: Props) {
  const role = $api.useQuery('get', '/caller').data?.role
  const { failures = problem.message, operation_id } = problem.details
  return (
    <div className="note warned" role="alert">
      <Icon name="warned" />
      <div>
        <p className="strong">This would fail an access test. Nothing was changed.</p>
        <ul>
          {failures.split('; ').map((failure) => (
            <li key={failure}>{failure}</li>
          ))}
        </ul>
        <p>
          If a test is out of date, change or delete it under <Link to="/access-tests">Access tests</Link>.
        </p>
        {role === 'admin' && (
          <div className="actions start">
            <Button
              isPending={isPending}
              onPress={() => {
                ignoreAccessTestsOnce()
                retry()
              }}
            >
              Ignore access tests
            </Button>
          </div>
        )}
        <p className="fine mono">
          {problem.code} · {operation_id}
        </p>
      </div>
    </div>
  )
}
