import { useMutation, useQuery } from '@tanstack/react-query'
import { answerOf, api } from '../api/client.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'

/** The page that `gatehouse login` opens: a person compares the code and decides. */
export function CliLogin() {
  const code = (new URLSearchParams(location.search).get('code') ?? '').toUpperCase()
  const asked = useQuery({
    queryKey: ['get', '/command_sign_in', code],
    queryFn: () => answerOf(api.GET('/command_sign_in', { params: { query: { code } } })),
    // An answered request is not read again.
    staleTime: Number.POSITIVE_INFINITY,
  })
  const answer = useMutation({
    mutationFn: (approve: boolean) => answerOf(api.POST('/command_sign_in', { body: { code, approve } })),
  })
  return (
    <>
      <PageHeader title="Sign in the command line" />
      {asked.isPending && <Skeleton lines={4} />}
      {asked.isError && <ProblemNote error={asked.error} />}
      {asked.data && !answer.data && (
        <section className="frame cli-login" aria-label="Request">
          <p>A program asks to use Gatehouse as you. Approve only if you started it and it shows this code:</p>
          <p className="cli-code mono">{code}</p>
          <dl className="facts">
            <dt>Program</dt>
            <dd>{asked.data.client}</dd>
            <dt>Machine</dt>
            <dd>{asked.data.host}</dd>
            <dt>Address</dt>
            <dd className="mono">{asked.data.source_ip ?? 'unknown'}</dd>
          </dl>
          {!asked.data.same_address && (
            <div className="note warned" role="note">
              <Icon name="warned" />
              <p>
                The program asked from another address than yours. That is normal for a remote machine. If someone sent
                you this link or code, deny it.
              </p>
            </div>
          )}
          {answer.isError && <ProblemNote error={answer.error} />}
          <div className="actions">
            <Button kind="primary" isPending={answer.isPending} onPress={() => answer.mutate(true)}>
              Approve
            </Button>
            <Button isDisabled={answer.isPending} onPress={() => answer.mutate(false)}>
              Deny
            </Button>
          </div>
        </section>
      )}
      {answer.data && (
        <p role="status" className={`note ${answer.data.approved ? 'allowed' : 'warned'}`}>
          {answer.data.approved
            ? 'Approved. The command line is signed in; you can close this page.'
            : 'Denied. The command line gets no access.'}
        </p>
      )}
    </>
  )
}
