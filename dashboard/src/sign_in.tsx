import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { signIn } from './api/session.ts'
import { ThemeSwitch } from './theme.tsx'
import { Button } from './ui/button.tsx'
import { Field } from './ui/field.tsx'
import { Mark } from './ui/mark.tsx'
import { ProblemNote } from './ui/problem.tsx'

type Props = { hadSession: boolean; problem: unknown }

export function SignIn({ hadSession, problem }: Props) {
  const [token, setToken] = useState('')
  const client = useQueryClient()
  const enter = useMutation({
    // Named, so that a wrong token is not taken for a session that has ended.
    mutationKey: ['sign in'],
    mutationFn: () => signIn(token.trim()),
    onSuccess: () => client.resetQueries(),
  })
  return (
    <main className="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (token.trim()) enter.mutate()
        }}
      >
        <Mark />
        <h1>Sign in to Gatehouse</h1>
        {hadSession && (
          <p className="note warned" role="status">
            Your session has ended: you signed out, it expired, or its key was deleted.
          </p>
        )}
        {problem !== undefined && problem !== null && (
          <ProblemNote error={problem} retry={() => client.invalidateQueries({ queryKey: ['get', '/caller'] })} />
        )}
        <Field
          label="API key"
          type="password"
          mono
          autoFocus
          autoComplete="off"
          value={token}
          onChange={setToken}
          placeholder="gatehouse_…"
          hint="The token of a user's API key. You have the same permissions as its owner. Deleting the key ends the session."
        />
        {enter.isError && <ProblemNote error={enter.error} />}
        <Button kind="primary" type="submit" isPending={enter.isPending}>
          Sign in
        </Button>
        <ThemeSwitch />
      </form>
    </main>
  )
}
