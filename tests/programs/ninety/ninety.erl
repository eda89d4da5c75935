%% SPDX-License-Identifier: Apache-2.0
%% erl -noshell -run ninety main SECONDS: spends nine tenths of its CPU time in hot/1 and one in cold/1.
-module(ninety).
-export([main/1, hot/1, cold/1]).

main([Seconds]) ->
    rounds(list_to_integer(Seconds) * 1000),
    erlang:halt(0).

hot(N) -> {sum_hot(9 * N, 0), N}.
cold(N) -> {sum_cold(N, 0), N}.

%% Functions of their own, since a loop is one that calls itself last, and has no other frame.
sum_hot(0, Sum) -> Sum;
sum_hot(N, Sum) -> sum_hot(N - 1, Sum + N band 7).

sum_cold(0, Sum) -> Sum;
sum_cold(N, Sum) -> sum_cold(N - 1, Sum + N band 7).

rounds(End) ->
    hot(20000),
    cold(20000),
    case statistics(runtime) of
        {Used, _} when Used < End -> rounds(End);
        _ -> ok
    end.
