%% SPDX-License-Identifier: Apache-2.0
%% Runs functions in many ways, and writes down for each the stack that Erlang itself says it is called by.
%%
%% erl -noshell -pa DIRECTORY -run truth main SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]},
%% outermost first; the last frame is burn/2 or burn_in_c/2, in which nearly all time goes by. Runs on Erlang/OTP 25 and later.
-module(truth).
-behaviour(gen_server).
-export([main/1, burn/2, hot/0, cold/0, by_apply/1, 'grüße'/0, init/1, handle_call/3, handle_cast/2]).

main([Seconds, Path | Names]) ->
    erlang:system_flag(backtrace_depth, 4096),
    {ok, Log} = file:open(Path, [write, {encoding, utf8}]),
    ets:new(known, [named_table, public]),
    put(log, Log),
    All = variants(),
    Chosen = [Variant || {Name, _} = Variant <- All, Names =:= [] orelse lists:member(atom_to_list(Name), Names)],
    repeat(round(list_to_number(Seconds) * 1000), Chosen),
    file:close(Log),
    erlang:halt(0).

list_to_number(Text) ->
    try list_to_float(Text) catch error:badarg -> float(list_to_integer(Text)) end.

repeat(End, Chosen) ->
    lists:foreach(fun({Name, Run}) -> put(variant, Name), Run() end, Chosen),
    case statistics(runtime) of
        {Used, _} when Used < End -> repeat(End, Chosen);
        _ -> ok
    end.

variants() ->
    [{plain, fun plain/0}, {deep, fun() -> put(repeated, {deep, 200}), deep(200) end}, {mutual, fun() -> even(30) end}, {closures, fun closures/0},
     {callbacks, fun callbacks/0}, {comprehensions, fun comprehensions/0}, {exceptions, fun exceptions/0}, {applies, fun applies/0},
     {processes, fun processes/0}, {servers, fun servers/0}, {messages, fun messages/0}, {in_c, fun in_c/0}, {numbers, fun numbers/0},
     {garbage, fun garbage/0}, {binaries, fun binaries/0}, {tables, fun tables/0}, {registers, fun registers/0},
     {loaded, fun loaded/0}, {unicode, fun 'grüße'/0}].

%% ---- what is written down ----

note() ->
    {current_stacktrace, [_ | Distinct]} = process_info(self(), current_stacktrace),
    Stack = lists:flatmap(fun repeated/1, Distinct),
    Variant = get(variant),
    case ets:insert_new(known, {{Variant, Stack}}) of
        true ->
            Frames = lists:join(",", [frame(Frame) || Frame <- lists:reverse(Stack)]),
            io:format(get(log), "{\"variant\":\"~ts\",\"stack\":[~ts]}~n", [Variant, Frames]);
        false ->
            ok
    end.

%% Of frames that return to the same place one after the other Erlang tells the first one only.
repeated({_, Name, _, _} = Frame) ->
    case get(repeated) of
        {Name, Times} -> lists:duplicate(Times, Frame);
        _ -> [Frame]
    end.

frame({Module, Function, Arity, Location}) ->
    Line = proplists:get_value(line, Location, 0),
    io_lib:format("[\"~ts:~ts/~b\",\"~ts\",~b]", [Module, Function, Arity, proplists:get_value(file, Location, ""), Line]).

%% ---- where the time goes by ----

%% The amount of work is the same however long it takes: some milliseconds. note() is called on the first line, since what is done before the first
%% call belongs to that.
burn(first, Milliseconds) -> note(),
    burn(Milliseconds * 400, 1);
burn(Left, N) when N band 1023 =/= 0 -> burn(Left, N + 1);
burn(Left, N) ->
    case is_integer(erlang:monotonic_time()) andalso Left > 0 of
        true -> burn(Left - 1, (N + 1) band 16#ffff);
        false -> N
    end.

burn_in_c(first, {Milliseconds, Work}) -> note(),
    burn_in_c(erlang:monotonic_time(microsecond) + Milliseconds * 1000, Work);
burn_in_c(End, Work) ->
    burn_in_c(Work),
    erlang:monotonic_time(microsecond) < End andalso burn_in_c(End, Work).

burn_in_c({reverse, List}) -> lists:reverse(List);
burn_in_c({digest, Data}) -> erlang:md5(Data);
burn_in_c({pack, Term}) -> erlang:term_to_binary(Term);
burn_in_c({unpack, Data}) -> erlang:binary_to_term(Data);
burn_in_c({member, List}) -> lists:member(none, List);
burn_in_c({power, Number}) -> Number * Number rem 1000000007;
burn_in_c({buffer, Buffer}) -> prim_buffer:size(Buffer);
burn_in_c({allocate, N}) -> erlang:make_tuple(N, [{N, N + 1}]);
burn_in_c({build, N}) -> erlang:length(build(N, []));
burn_in_c({match, Data}) -> match(Data, 0);
burn_in_c({join, N}) -> join(N, <<>>);
burn_in_c({collect, _}) -> erlang:garbage_collect();
burn_in_c({lookup, Table}) -> ets:lookup(Table, 500).

build(0, List) -> List;
build(N, List) -> build(N - 1, [{N, List} | List]).

match(<<A:12, B:20/little, Rest/binary>>, Sum) -> match(Rest, Sum + A + B);
match(_, Sum) -> Sum.

join(0, Data) -> Data;
join(N, Data) -> join(N - 1, <<Data/binary, N:32, "text">>).

%% ---- ways to be called ----

plain() -> [hot(), cold()].
hot() -> [burn(first, 18)].
cold() -> [burn(first, 2)].

deep(0) -> burn(first, 20);
deep(N) -> 1 + deep(N - 1).

even(0) -> burn(first, 20);
even(N) -> [odd(N - 1)].
odd(0) -> burn(first, 20);
odd(N) -> {even(N - 1), N}.

closures() ->
    Twice = fun(F) -> F(), F(), ok end,
    N = length(get()),
    Twice(fun() -> burn(first, 5 + N - N), ok end),
    Named = fun Loop(0) -> burn(first, 5); Loop(I) -> Loop(I - 1) + 1 end,
    put(repeated, {'-closures/0-Loop/1-0-', 5}),
    Named(5),
    Local = fun hot/0,
    Local(),
    External = fun ?MODULE:cold/0,
    External(),
    ok.

callbacks() ->
    Burn = fun(X) -> burn(first, 2), X end,
    lists:map(Burn, [1, 2]),
    lists:foldl(fun(X, Sum) -> burn(first, 2), X + Sum end, 0, [1, 2]),
    lists:foldr(fun(X, Sum) -> burn(first, 2), X + Sum end, 0, [1, 2]),
    lists:foreach(Burn, [1, 2]),
    lists:filter(fun(X) -> burn(first, 2), X > 1 end, [1, 2]),
    lists:sort(fun(A, B) -> burn(first, 2), A < B end, [3, 1, 2]),
    lists:mapfoldl(fun(X, Sum) -> burn(first, 2), {X, X + Sum} end, 0, [1, 2]),
    maps:map(fun(_, V) -> burn(first, 2), V end, #{a => 1, b => 2}),
    maps:fold(fun(_, V, Sum) -> burn(first, 2), V + Sum end, 0, #{a => 1, b => 2}),
    ok.

comprehensions() ->
    _ = [burn(first, 2) || X <- [1, 2, 3], X > 1],
    _ = << <<(burn(first, 2) band 255)>> || <<_:8>> <= <<"ab">> >>,
    _ = [{X, burn(first, 1)} || X <- [1, 2], _ <- [a, b]],
    ok.

exceptions() ->
    try
        deep_throw(10)
    catch
        throw:Value -> burn(first, 5), Value
    after
        burn(first, 5)
    end,
    _ = (catch caught(1)),
    try erlang:error(badarg) catch error:badarg:Stack -> burn(first, 5), length(Stack) end,
    try nested(0) catch _:_ -> burn(first, 2) end,
    ok.

deep_throw(0) -> burn(first, 5), throw(thrown);
deep_throw(N) -> [deep_throw(N - 1)].

caught(N) -> X = burn(first, 5) * 0 + N, [_] = lists:seq(X, 2), ok.

nested(N) ->
    try burn(first, 2), 1 / N of
        X -> X
    catch
        error:badarith -> burn(first, 2), erlang:raise(error, again, [])
    end.

applies() ->
    apply(?MODULE, by_apply, [3]),
    Module = list_to_existing_atom("truth"),
    Module:by_apply(3),
    apply(fun(X) -> burn(first, 5), X end, [1]),
    erlang:apply(lists, map, [fun(X) -> burn(first, 5), X end, [1]]),
    ok.

by_apply(Milliseconds) -> [burn(first, Milliseconds)].

%% Workers have the variant and the log of those who start them.
start(Run) ->
    {Variant, Log} = {get(variant), get(log)},
    spawn_monitor(fun() -> put(variant, Variant), put(log, Log), Run() end).

await({_, Monitor}) -> receive {'DOWN', Monitor, process, _, _} -> ok end.

processes() ->
    lists:foreach(fun await/1, [start(fun() -> in_process(N rem 4) end) || N <- lists:seq(1, 20)]),
    ok.

in_process(0) -> burn(first, 2), ok;
in_process(N) -> in_process(N - 1), ok.

servers() ->
    {ok, Server} = gen_server:start_link(?MODULE, {get(variant), get(log)}, []),
    gen_server:call(Server, burn),
    gen_server:cast(Server, burn),
    gen_server:call(Server, burn),
    gen_server:stop(Server),
    ok.

init({Variant, Log}) -> put(variant, Variant), put(log, Log), burn(first, 2), {ok, none}.
handle_call(burn, _, State) -> burn(first, 8), {reply, ok, State}.
handle_cast(burn, State) -> burn(first, 4), {noreply, State}.

messages() ->
    Other = start(fun echo/0),
    send(element(1, Other), 50),
    await(Other),
    ok.

send(Pid, 0) -> Pid ! stop;
send(Pid, N) -> Pid ! {self(), N}, burn(first, 1), receive N -> ok end, send(Pid, N - 1).

echo() -> receive stop -> ok; {From, N} -> From ! N, burn(first, 1), echo() end.

in_c() ->
    List = lists:seq(1, 2000),
    lists:foreach(fun(Work) -> burn_in_c(first, {3, Work}) end,
                  [{reverse, List}, {digest, binary:copy(<<"x">>, 20000)}, {pack, List}, {unpack, term_to_binary(List)}, {member, List},
                   {buffer, prim_buffer:new()}]),
    ok.

numbers() -> burn_in_c(first, {20, {power, 1 bsl 4000 + 12345}}), ok.

garbage() ->
    burn_in_c(first, {10, {allocate, 500}}),
    burn_in_c(first, {10, {build, 3000}}),
    Kept = lists:seq(1, 50000),
    burn_in_c(first, {10, {collect, none}}),
    length(Kept).

binaries() ->
    burn_in_c(first, {10, {match, binary:copy(<<"abcd">>, 1000)}}),
    burn_in_c(first, {10, {join, 500}}),
    ok.

tables() ->
    Table = ets:new(numbers, []),
    ets:insert(Table, [{N, N} || N <- lists:seq(1, 1000)]),
    burn_in_c(first, {5, {lookup, Table}}),
    ets:foldl(fun({1, _}, Sum) -> burn(first, 5), Sum; ({_, N}, Sum) -> N + Sum end, 0, Table),
    ets:delete(Table),
    ok.

%% Frames with many terms.
registers() -> many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ok.

many(A, B, C, D, E, F, G, H, I, J) ->
    L = [A * 2, B * 3, C * 5, D * 7],
    K = burn(first, 10),
    M = fewer(E + F, {G, H}, [I | L]),
    {A, B, C, D, E, F, G, H, I, J, K, L, M}.

fewer(X, Y, Z) -> K = burn(first, 10), {K, X, Y, Z}.

%% A module that is loaded in place of another one all the time, each with a function of another name.
loaded() ->
    Number = case get(number) of undefined -> 1; N -> N rem 5 + 1 end,
    put(number, Number),
    Name = list_to_atom("generated_" ++ integer_to_list(Number)),
    Code = case get(Name) of undefined -> generate(Name, Number); Known -> Known end,
    put(Name, Code),
    code:purge(generated),
    {module, generated} = code:load_binary(generated, "generated.erl", Code),
    generated:Name(),
    ok.

generate(Name, Number) ->
    Call = {call, 30 + Number, {remote, 1, {atom, 1, ?MODULE}, {atom, 1, burn}}, [{atom, 1, first}, {integer, 1, 10}]},
    Body = [{match, 20, {var, 20, 'X'}, Call}, {tuple, 40, [{var, 40, 'X'}, {integer, 40, Number}]}],
    Forms = [{attribute, 1, file, {"generated.erl", 1}}, {attribute, 1, module, generated}, {attribute, 2, export, [{Name, 0}]},
             {function, 10, Name, 0, [{clause, 10, [], [], Body}]}],
    {ok, generated, Code} = compile:forms(Forms, []),
    Code.

'grüße'() -> 'δ'(fun('日本') -> burn(first, 10) end), ok.
'δ'(F) -> F('日本'), ok.
