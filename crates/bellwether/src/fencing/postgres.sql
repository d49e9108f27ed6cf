CREATE TABLE IF NOT EXISTS bellwether_fences (
    election text PRIMARY KEY,
    term     bigint NOT NULL
);

-- Call it in the transaction of the write, before the write. It raises SQLSTATE ZBW01, with the
-- newest term as the detail, if a later term was here.
CREATE OR REPLACE FUNCTION bellwether_fence(of_election text, of_term bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    -- Without a lock, to know which one to take: whoever takes the shared one first and the other
    -- one later deadlocks with a second that does the same.
    SELECT term INTO newest FROM bellwether_fences WHERE election = of_election;
    IF newest = of_term THEN
        -- The usual case. All transactions under this term share the lock, and a later term waits
        -- until they have ended.
        PERFORM 1 FROM bellwether_fences WHERE election = of_election AND term = of_term FOR SHARE;
    ELSE
        INSERT INTO bellwether_fences AS seen (election, term) VALUES (of_election, of_term)
            ON CONFLICT (election) DO UPDATE SET term = excluded.term
            WHERE seen.term <= excluded.term;
    END IF;
    IF NOT FOUND THEN
        SELECT term INTO newest FROM bellwether_fences WHERE election = of_election;
        RAISE EXCEPTION 'term % of election "%" is fenced off: term % has written since',
            of_term, of_election, newest
            USING ERRCODE = 'ZBW01', DETAIL = newest::text;
    END IF;
END
$$;
